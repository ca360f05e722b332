"""The kernels without Python: NEON cross-compiled and emulated, and every x86 level under the sanitizers.

The first needs the Debian packages g++-aarch64-linux-gnu and qemu-user, the second a GCC or Clang with its sanitizers;
skipped where they are missing.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from whitedwarf._native import Kernels

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native"
# Which sources each driver needs: portable ones, and of every level.
DRIVERS = {
    "levels_driver": (
        ("dispatch", "pool", "matmul", "experts"),
        ("float", "level", "multiply", "panel", "tile", "unpack"),
    ),
    "neon_rows_driver": (("rows", "row_level", "pick"), ("row_level",)),
    "quantize_driver": (("quantize", "iq2_neighbours", "pool"), ("quantize",)),
}
FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-ffp-contract=off", "-pthread", f"-I{NATIVE}")
AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX512 = (*AVX2, *(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vbmi", "vnni")), "-mgfni")
LEVEL_FLAGS = {
    "neon": ("-march=armv8.2-a+dotprod",),
    "avx2": AVX2,
    "avx512": (*AVX512, "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
    "amx": (
        *AVX512,
        "-mavx512bf16",
        "-mamx-tile",
        "-mamx-int8",
        "-mamx-bf16",
        "-Wno-uninitialized",
        "-Wno-maybe-uninitialized",
    ),
}
CROSS_COMPILER = shutil.which("aarch64-linux-gnu-g++")
EMULATOR = shutil.which("qemu-aarch64")
COMPILER = shutil.which("g++") or shutil.which("clang++")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def existing(folder: str, names: tuple[str, ...]) -> list[Path]:
    return [path for name in names if (path := NATIVE / folder / f"{name}.cpp").exists()]


def compile_driver(folder: Path, name: str, compiler: str, levels: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    portable, by_level = DRIVERS[name]
    objects = []
    for level in levels:
        for source in existing(level, by_level):
            objects.append(folder / f"{level}_{source.stem}.o")
            command = [compiler, *FLAGS, *flags, *LEVEL_FLAGS[level], "-c", str(source), "-o", str(objects[-1])]
            subprocess.run(command, check=True)
    sources = [*existing(".", portable), *existing("scalar", by_level), ROOT / "tests" / "native" / f"{name}.cpp"]
    driver = folder / name
    subprocess.run([compiler, *FLAGS, *flags, *map(str, sources), *map(str, objects), "-o", str(driver)], check=True)
    return driver


def has_sanitizers(folder: Path) -> bool:
    if COMPILER is None:
        return False
    source = folder / "empty.cpp"
    source.write_text("int main() { return 0; }\n")
    program = folder / "empty"
    compiled = subprocess.run([COMPILER, *SANITIZERS, str(source), "-o", str(program)], capture_output=True)
    return compiled.returncode == 0 and subprocess.run([program]).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(
    CROSS_COMPILER is None or EMULATOR is None,
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64 (g++-aarch64-linux-gnu, qemu-user)",
)
@pytest.mark.parametrize(
    ("name", "verdict"),
    [("levels_driver", "neon equal\n"), ("neon_rows_driver", "equal\n"), ("quantize_driver", "neon equal\n")],
)
def test_neon_gives_the_bits_of_the_scalar_level(name, verdict, tmp_path):
    driver = compile_driver(tmp_path, name, CROSS_COMPILER, ("neon",), ("-Werror",))
    run = subprocess.run([EMULATOR, "-L", "/usr/aarch64-linux-gnu", driver], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, verdict)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 levels")
def test_no_level_reads_or_writes_out_of_bounds(tmp_path):
    if not has_sanitizers(tmp_path):
        pytest.skip("needs a compiler with the address and undefined behaviour sanitizers")
    levels = Kernels.available_levels()[1:]
    has_tiles = ("-DWHITEDWARF_AMX",) if "amx" in levels else ()
    compiled = ("avx2", "avx512", "amx") if has_tiles else ("avx2", "avx512")
    driver = compile_driver(tmp_path, "levels_driver", COMPILER, compiled, (*SANITIZERS, *has_tiles))
    run = subprocess.run([driver], capture_output=True, text=True)
    expected = "".join(f"{level} equal\n" for level in levels)
    assert (run.returncode, run.stdout) == (0, expected), run.stderr


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 levels")
def test_no_encoder_reads_or_writes_out_of_bounds(tmp_path):
    if not has_sanitizers(tmp_path):
        pytest.skip("needs a compiler with the address and undefined behaviour sanitizers")
    levels = [level for level in Kernels.available_levels()[1:] if level != "amx"]
    driver = compile_driver(tmp_path, "quantize_driver", COMPILER, ("avx2", "avx512"), SANITIZERS)
    run = subprocess.run([driver], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "".join(f"{level} equal\n" for level in levels)), run.stderr
