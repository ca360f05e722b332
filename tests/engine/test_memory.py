"""Refusing before loading, over machines that are only described."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.engine.memory import (
    CgroupUse,
    Need,
    Probe,
    cgroup_uses,
    fitting_context,
    judge,
    probe_memory,
    size_text,
)
from whitedwarf.errors import OutOfMemoryError

GIB = 1 << 30
MACHINE = Probe(total_bytes=16 * GIB, available_bytes=8 * GIB)


def need(context_gib: float, weights_gib: float = 4, context_length: int = 32768) -> Need:
    return Need(int(weights_gib * GIB), int(context_gib * GIB), GIB, context_length)


def test_what_fits_is_silent() -> None:
    assert judge(need(7), MACHINE) == ()


def test_what_does_not_fit_is_refused_with_both_numbers_and_the_context_that_would() -> None:
    with pytest.raises(OutOfMemoryError) as caught:
        judge(need(14), MACHINE)
    message = str(caught.value)
    for part in ("32768 tokens needs 14.0 GiB", "8.0 GiB of memory are available", "--ctx 16384", "--force"):
        assert part in message


def test_when_not_even_the_buffers_fit_no_context_is_proposed() -> None:
    with pytest.raises(OutOfMemoryError) as caught:
        judge(need(1), Probe(16 * GIB, GIB // 2))
    assert "--ctx" not in str(caught.value)


def test_force_turns_the_refusal_into_a_warning() -> None:
    (warning,) = judge(need(14, weights_gib=0.5), MACHINE, force=True)
    assert "--force" in warning


def test_several_contexts_that_do_not_fit_together_are_a_warning() -> None:
    assert judge(replace(need(2), parallel=3), MACHINE) == ()
    (warning,) = judge(replace(need(2), parallel=4), MACHINE)
    for part in ("4 requests", "9.0 GiB", "8.0 GiB of memory are available", "--parallel"):
        assert part in warning


def test_beginnings_of_prompts_have_to_fit_beside_one_context() -> None:
    assert judge(replace(need(5), prefix_bytes=2 * GIB), MACHINE) == ()
    with pytest.raises(OutOfMemoryError, match=r"prompts 4\.0 GiB, but 8\.0 GiB .*use --kv-ram-mb 2048 or less"):
        judge(replace(need(5), prefix_bytes=4 * GIB), MACHINE)


def test_where_the_context_alone_is_too_long_it_is_what_has_to_become_shorter() -> None:
    with pytest.raises(OutOfMemoryError, match=r"use --ctx 13824 or less, or"):
        judge(replace(need(14), prefix_bytes=GIB), MACHINE)
    with pytest.raises(OutOfMemoryError, match=r"use --ctx 16384 or less and --kv-ram-mb 0"):
        judge(replace(need(14), prefix_bytes=64 * GIB), MACHINE)


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 256))
def test_what_is_proposed_is_not_refused_again(usable: int, context: int, prefix: int, parallel: int) -> None:
    asked = Need(0, context, GIB, 1 << 20, parallel, prefix)
    probe = Probe(1 << 60, usable)
    try:
        judge(asked, probe)
    except OutOfMemoryError as error:
        if found := re.search(r"use --kv-ram-mb (\d+)", str(error)):
            judge(replace(asked, prefix_bytes=int(found[1]) << 20), probe)
        elif found := re.search(r"use --ctx (\d+)", str(error)):
            length = int(found[1])
            kept = 0 if "--kv-ram-mb 0" in str(error) else prefix
            judge(Need(0, context * length // (1 << 20), GIB, length, parallel, kept), probe)


def test_weights_larger_than_memory_are_a_warning_because_they_are_mapped() -> None:
    (warning,) = judge(need(2, weights_gib=80), MACHINE)
    assert "80.0 GiB" in warning
    assert "16.0 GiB" in warning


def test_a_containers_limit_counts_and_its_file_cache_does_not() -> None:
    group = CgroupUse(limit_bytes=4 * GIB, used_bytes=3 * GIB, file_cache_bytes=2 * GIB)
    probe = Probe(16 * GIB, 8 * GIB, (group,))
    assert probe.usable_bytes == 3 * GIB
    assert probe.ceiling_bytes == 4 * GIB
    with pytest.raises(OutOfMemoryError, match=r"3\.0 GiB of memory are available"):
        judge(need(3), probe)


@given(st.integers(0, 1 << 45), st.integers(1, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_the_proposed_context_really_fits(usable: int, context_bytes: int, fixed: int, length: int) -> None:
    proposed = fitting_context(Need(0, context_bytes, fixed, length), usable)
    assert 0 <= proposed <= length
    assert proposed == 0 or proposed * context_bytes / length + fixed <= usable


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_version_2_groups_are_read_up_to_the_root(tmp_path: Path) -> None:
    write(tmp_path / "proc/self", cgroup="0::/outer/inner\n")
    mount = tmp_path / "sys/fs/cgroup"
    stat = "anon 5\ninactive_file 20\nactive_file 10\n"
    write(mount / "outer", memory__max="1000\n", memory__current="600\n", memory__stat=stat)
    write(mount / "outer/inner", memory__max="max\n", memory__current="600\n", memory__stat=stat)
    assert cgroup_uses(tmp_path) == (CgroupUse(1000, 600, 30),)


def test_version_1_groups_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/self", cgroup="9:name=systemd:/\n4:cpu,memory:/job\n0::/\n")
    mount = tmp_path / "sys/fs/cgroup/memory"
    stat = "total_inactive_file 7\ntotal_active_file 1\n"
    names = {"memory__usage_in_bytes": "500\n", "memory__stat": stat}
    write(mount, memory__limit_in_bytes="9223372036854771712\n", **names)
    write(mount / "job", memory__limit_in_bytes="1000\n", **names)
    assert cgroup_uses(tmp_path) == (CgroupUse(1000, 500, 8),)


def test_a_path_of_the_host_falls_back_to_the_mounted_group(tmp_path: Path) -> None:
    write(tmp_path / "proc/self", cgroup="0::/docker/not-here\n")
    write(tmp_path / "sys/fs/cgroup", memory__max="1000", memory__current="1", memory__stat="inactive_file 1\n")
    assert cgroup_uses(tmp_path) == (CgroupUse(1000, 1, 1),)


def test_where_there_are_no_groups_there_are_no_limits(tmp_path: Path) -> None:
    assert cgroup_uses(tmp_path) == ()


def test_this_machine_can_be_read() -> None:
    probe = probe_memory()
    assert 0 < probe.usable_bytes <= probe.total_bytes


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text
