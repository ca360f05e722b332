"""Threads within the quota of the control groups, read from made-up file trees."""

from pathlib import Path

import pytest

from whitedwarf.cli.cpu_quota import quota_threads


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("quota", "threads"),
    [("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1), ("max 100000", None), ("", None)],
)
def test_version_2_quotas_are_rounded_up_to_whole_threads(tmp_path: Path, quota: str, threads: int | None) -> None:
    files = {"proc/self/cgroup": "0::/app\n", "sys/fs/cgroup/app/cpu.max": f"{quota}\n"}
    assert quota_threads(tree(tmp_path, files)) == threads


def test_the_tightest_group_on_the_way_up_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/cpu.max": "800000 100000\n",
        "sys/fs/cgroup/outer/cpu.max": "300000 100000\n",
    }
    assert quota_threads(tree(tmp_path, files)) == 3


def test_version_1_quotas_count_and_minus_one_means_none(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "3:cpu,cpuacct:/docker/abc\n1:memory:/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
    }
    assert quota_threads(tree(tmp_path, files)) == 4


def test_no_control_groups_mean_no_quota(tmp_path: Path) -> None:
    assert quota_threads(tmp_path) is None
