"""Programs that are not ours, as scripts/install_real_parts.py left them: the real DSH and a real llama-server."""

import os
import platform
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(name: str, pattern: str) -> Path:
    """A part's program. Where it is not there the test is skipped; in CI it fails, if this machine has wheels."""
    folder = Path(os.environ.get("WHITEDWARF_REAL_PARTS") or ROOT / ".real-parts")
    found = sorted(path for path in folder.glob(pattern) if os.access(path, os.X_OK))
    if found:
        return found[0]
    missing = folder / f"{name}.missing"
    reason = missing.read_text().strip() if missing.exists() else f"not in {folder}; make real-parts installs it"
    if os.environ.get("CI") and _has_wheels():
        pytest.fail(f"{name}: {reason}")
    pytest.skip(f"{name}: {reason}")


def _has_wheels() -> bool:
    """Linux on x86-64 with glibc 2.35: for it both parts are published."""
    name, version = platform.libc_ver()
    is_new = name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= (2, 35)
    return platform.system() == "Linux" and platform.machine() == "x86_64" and is_new
