"""Byte-pair encoding without Python, under the sanitizers; skipped where the compiler has none."""

import subprocess

import pytest

from native.test_standalone import COMPILER, FLAGS, NATIVE, ROOT, SANITIZERS, has_sanitizers

SOURCES = ("byte_pairs", "characters", "merges", "words")


@pytest.mark.slow
def test_encoding_reads_and_writes_nothing_out_of_bounds(tmp_path):
    if COMPILER is None or not has_sanitizers(tmp_path):
        pytest.skip("needs a compiler with the address and undefined behaviour sanitizers")
    sources = [NATIVE / f"{name}.cpp" for name in SOURCES]
    driver = tmp_path / "text_driver"
    command = [COMPILER, *FLAGS, *SANITIZERS, *map(str, sources), str(ROOT / "tests/native/text_driver.cpp")]
    subprocess.run([*command, "-o", str(driver)], check=True)
    run = subprocess.run([driver], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "whole\n"), run.stderr
