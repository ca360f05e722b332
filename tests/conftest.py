"""Settings for all tests: no deadlines (the machines are shared), examples that come again in CI, a Ctrl+C that counts.

A shell starts what runs in its background with SIGINT ignored, and every process below inherits that.
Where there is no GPU, Triton kernels are interpreted; Triton looks at the environment when it is imported. torch's
threads wait busily for each other: beside other processes one thread is many times faster than all of them. Files run
in the order of `file_seconds.json`, which scripts/file_seconds.py makes of a run's times.
"""

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from fakes.quick_interpreter import make_quick

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("OMP_NUM_THREADS", "1")
if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")):
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker is left with one of them at the end."""
    folder = Path(__file__).parent
    seconds: dict[str, float] = json.loads((folder / "file_seconds.json").read_text())
    items.sort(key=lambda item: -seconds.get(item.path.relative_to(folder.parent).as_posix(), 0))


def pytest_collection_finish() -> None:
    make_quick()
