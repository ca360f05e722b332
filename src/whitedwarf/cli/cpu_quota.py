"""How many processors' worth of time the control groups around this process allow (`docker run --cpus 2`).

More threads than that are worse than useless: the kernel stops all of them when the quota of a period is spent.
"""

import math
from pathlib import Path

_ROOT = Path("/")


def quota_threads(root: Path = _ROOT) -> int | None:
    """The tightest quota, rounded up to whole threads; None where there is none."""
    quotas = [quota for folder in _folders(root) if (quota := _read_quota(folder)) is not None]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _folders(root: Path) -> list[Path]:
    """Every group of ours, up to the mounts; inside a container only the mount may be there to be read."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            group = mount / path.lstrip("/")
            folders += [group, *group.parents][: len(group.parts) - len(mount.parts) + 1]
    return folders


def _read_quota(folder: Path) -> float | None:
    """Processors allowed by one group, of either version; None where it sets no quota."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        allowed = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None  # "max" is no number: no quota
    return allowed if allowed > 0 else None
