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
PORTABLE = ("dispatch.cpp", "pool.cpp", "matmul.cpp", "experts.cpp")
FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-ffp-contract=off", "-pthread", f"-I{NATIVE}")
LEVEL_FLAGS = {
    "neon": ("-march=armv8.2-a+dotprod",),
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2"),
    "avx512": ["-mavx2", "-mfma", "-mf16c", "-mbmi2", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi", "-mavx512vnni", "-Wno-uninitialized", "-Wno-maybe-uninitialized"],
}
CROSS_COMPILER = shutil.which("aarch64-linux-gnu-g++")
EMULATOR = shutil.which("qemu-aarch64")
COMPILER = shutil.which("g++") or shutil.which("clang++")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


def compile_driver(folder: Path, compiler: str, levels: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    objects = []
    for level in levels:
        for source in (NATIVE / level).glob("*.cpp"):
            objects.append(str(folder / f"{level}_{source.stem}.o"))
            command = [compiler, *FLAGS, *flags, *LEVEL_FLAGS[level], "-c", str(source), "-o", objects[-1]]
            subprocess.run(command, check=True)
    sources = [NATIVE / name for name in PORTABLE]
    sources += [*(NATIVE / "scalar").glob("*.cpp"), ROOT / "tests" / "native" / "levels_driver.cpp"]
    driver = folder / "levels_driver"
    subprocess.run([compiler, *FLAGS, *flags, *map(str, sources), *objects, "-o", str(driver)], check=True)
    return driver


def has_sanitizers(folder: Path) -> bool:
    if COMPILER is None:
        return False
    source = folder / "empty.cpp"
    source.write_text("int main() { return 0; }\n")
    program = folder / "empty"
    command = [COMPILER, *SANITIZERS, str(source), "-o", str(program)]
    return subprocess.run(command, capture_output=True).returncode == 0 and subprocess.run([program]).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(
    CROSS_COMPILER is None or EMULATOR is None,
    reason="needs aarch64-linux-gnu-g++ and qemu-aarch64 (g++-aarch64-linux-gnu, qemu-user)",
)
def test_neon_gives_the_bits_of_the_scalar_level(tmp_path):
    driver = compile_driver(tmp_path, CROSS_COMPILER, ("neon",), ("-Werror",))
    run = subprocess.run([EMULATOR, "-L", "/usr/aarch64-linux-gnu", driver], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "neon equal\n")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 levels")
def test_no_level_reads_or_writes_out_of_bounds(tmp_path):
    if not has_sanitizers(tmp_path):
        pytest.skip("needs a compiler with the address and undefined behaviour sanitizers")
    driver = compile_driver(tmp_path, COMPILER, ("avx2", "avx512"), SANITIZERS)
    run = subprocess.run([driver], capture_output=True, text=True)
    expected = "".join(f"{level} equal\n" for level in Kernels.available_levels()[1:])
    assert (run.returncode, run.stdout) == (0, expected), run.stderr
