"""The NEON level, cross-compiled and emulated, against the scalar level.

Needs the Debian packages g++-aarch64-linux-gnu and qemu-user; skipped where they are missing.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("aarch64-linux-gnu-g++")
EMULATOR = shutil.which("qemu-aarch64")
PORTABLE = ("dispatch.cpp", "pool.cpp", "matmul.cpp", "experts.cpp")
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread", f"-I{ROOT / 'native'}")
NEON_FLAGS = ("-march=armv8.2-a+dotprod",)

needs_tools = pytest.mark.skipif(
    COMPILER is None or EMULATOR is None,
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64 (g++-aarch64-linux-gnu, qemu-user)",
)


def compile_driver(folder: Path) -> Path:
    sources = [ROOT / "native" / name for name in PORTABLE]
    sources += [*(ROOT / "native" / "scalar").glob("*.cpp"), ROOT / "tests" / "native" / "neon_driver.cpp"]
    neon = list((ROOT / "native" / "neon").glob("*.cpp"))
    for source in neon:
        target = folder / f"neon_{source.stem}.o"
        subprocess.run([COMPILER, *FLAGS, *NEON_FLAGS, "-c", str(source), "-o", str(target)], check=True)
    objects = [str(folder / f"neon_{source.stem}.o") for source in neon]
    driver = folder / "neon_driver"
    subprocess.run([COMPILER, *FLAGS, *map(str, sources), *objects, "-o", str(driver)], check=True)
    return driver


@pytest.mark.slow
@needs_tools
def test_neon_gives_the_bits_of_the_scalar_level(tmp_path):
    driver = compile_driver(tmp_path)
    run = subprocess.run(
        [EMULATOR, "-L", "/usr/aarch64-linux-gnu", str(driver)], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout
    assert run.stdout == "equal\n"
