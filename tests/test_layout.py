"""Rules of the house that a machine can check: file sizes and names (design.md 8)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FILE = 600  # lines
BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "handler", "common", "misc"}
SOURCES = sorted(
    path
    for folder, patterns in {
        "src": ["*.py"],
        "native": ["*.cpp", "*.h"],
        "tests": ["*.py", "*.cpp"],
        "scripts": ["*.py"],
        "nano": ["*.py", "*.cpp"],
    }.items()
    for pattern in patterns
    for path in (ROOT / folder).rglob(pattern)
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_too_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_no_file_hides_behind_a_name_that_says_nothing():
    assert [path for path in SOURCES if path.stem in BANNED_NAMES] == []


def test_importing_the_package_imports_no_numpy():
    code = "import sys, whitedwarf; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
