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
# Which sources each driver needs: portable ones, and of every level.
DRIVERS = {
    "neon_driver": (("dispatch", "pool", "matmul", "experts"), ("float", "level", "multiply", "unpack")),
    "neon_rows_driver": (("rows", "row_level"), ("row_level",)),
}
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread", f"-I{ROOT / 'native'}")
NEON_FLAGS = ("-march=armv8.2-a+dotprod",)

needs_tools = pytest.mark.skipif(
    COMPILER is None or EMULATOR is None,
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64 (g++-aarch64-linux-gnu, qemu-user)",
)


def existing(folder: str, names: tuple[str, ...]) -> list[Path]:
    return [path for name in names if (path := ROOT / "native" / folder / f"{name}.cpp").exists()]


def compile_driver(folder: Path, name: str) -> Path:
    portable, by_level = DRIVERS[name]
    sources = [*existing(".", portable), *existing("scalar", by_level), ROOT / "tests" / "native" / f"{name}.cpp"]
    objects = []
    for source in existing("neon", by_level):
        objects.append(folder / f"neon_{source.stem}.o")
        subprocess.run([COMPILER, *FLAGS, *NEON_FLAGS, "-c", str(source), "-o", str(objects[-1])], check=True)
    driver = folder / name
    subprocess.run([COMPILER, *FLAGS, *map(str, sources), *map(str, objects), "-o", str(driver)], check=True)
    return driver


@pytest.mark.slow
@needs_tools
@pytest.mark.parametrize("name", DRIVERS)
def test_neon_gives_the_bits_of_the_scalar_level(name, tmp_path):
    driver = compile_driver(tmp_path, name)
    run = subprocess.run(
        [EMULATOR, "-L", "/usr/aarch64-linux-gnu", str(driver)], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout
    assert run.stdout == "equal\n"
