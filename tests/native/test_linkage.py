"""No function that one CPU level compiled may stand in for another level's: the linker keeps one copy of each name."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = sorted(ROOT.glob("build/*/CMakeFiles/_native.dir/native/[an]*/*.o"))  # amx, avx2, avx512, neon
MERGED = {"W", "V", "u", "w", "v"}  # kinds of symbols (nm) of which the linker keeps the first it meets


@pytest.mark.skipif(not OBJECTS or shutil.which("nm") is None, reason="needs the objects of a build here, and nm")
def test_the_levels_share_no_function_that_the_linker_would_merge():
    command = ["nm", "--demangle", "--defined-only", *map(str, OBJECTS)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split(maxsplit=2) for line in lines if len(line.split(maxsplit=2)) == 3]
    assert symbols
    own = "whitedwarf::amx::", "whitedwarf::avx2::", "whitedwarf::avx512::", "whitedwarf::neon::"
    assert not [name for _, kind, name in symbols if kind in MERGED and not name.startswith(own)]
