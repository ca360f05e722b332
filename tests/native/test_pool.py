"""The thread pool where things go wrong: no memory, a forked child, an interpreter that ends first, no more threads.

Each runs in a process of its own, because each used to end it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("g++") or shutil.which("clang++")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and RLIMIT_AS")

PRELUDE = """
import os, sys, threading, time
import numpy as np
from whitedwarf._native import Kernels

def norm(kernels, rows=300):
    x = np.ones((rows, 4096), np.float32)
    kernels.rms_norm(x, np.ones(4096, np.float32), 1e-6, out := np.zeros_like(x))
    return out[0, 0] > 0.9
"""
LIMIT_MEMORY = """
import resource
def limit_memory(more_bytes):
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, used + more_bytes))
"""


def run(program: str, *arguments: str) -> list[str]:
    """The lines that the program prints, once it has ended well."""
    command = [sys.executable, "-c", PRELUDE + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@linux
@pytest.mark.parametrize("num_queries", [1, 8])
def test_a_worker_without_memory_is_a_memory_error_and_the_kernels_live_on(num_queries):
    program = """
kernels, format = Kernels(2), Kernels.RowFormat(3, 32, 0)
n, num_keys = int(sys.argv[1]), 16 << 20
keys = np.zeros((num_keys, format.row_bytes), np.uint8)  # never touched
arrays = np.ones((n, 2, 32), np.float32), np.ones((n, 2), np.float32), keys
counts, out = np.full(n, num_keys, np.int32), np.zeros((n, 4), np.int32)
norm(kernels)
limit_memory(32 << 20)  # less than the scores of one query
try:
    kernels.index_pick(*arrays, format, counts, out)
except MemoryError:
    print("MemoryError")
print(norm(kernels, 64))
"""
    assert run(LIMIT_MEMORY + program, str(num_queries)) == ["MemoryError", "True"]


@linux
def test_threads_that_cannot_be_started_are_a_backend_error():
    program = """
from whitedwarf.errors import BackendError
from whitedwarf.ops.select import make_ops
import whitedwarf.ops.cpu
limit_memory(100 << 20)
try:
    make_ops("cpu", threads=1000)
except BackendError as error:
    print(str(error).split(":")[0])
"""
    assert run(LIMIT_MEMORY + program) == ["1000 threads could not be started"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_refuses_its_parents_kernels_and_ends_well():
    program = """
kernels = Kernels(4)
norm(kernels)
child = os.fork()
if child == 0:
    try:
        norm(kernels)
    except RuntimeError as error:
        print(error)
    print(norm(Kernels(2)))
    del kernels
    sys.exit(0)
print(os.waitpid(child, 0)[1], norm(kernels))
"""
    refusal, *rest = run(program)
    assert "make new ones" in refusal
    assert rest == ["True", "0 True"]


def test_kernels_at_work_when_the_interpreter_ends_do_not_end_it_badly():
    program = """
kernels = Kernels(2)
def work():
    while True:
        norm(kernels, 2000)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("bye")
"""
    assert run(program) == ["bye"]


@pytest.mark.slow
def test_the_pool_has_no_races(tmp_path):
    empty, driver = tmp_path / "empty.cpp", tmp_path / "pool_driver"
    empty.write_text("int main() { return 0; }\n")
    flags = ["-std=c++20", "-O1", "-g", "-pthread", "-fsanitize=thread", f"-I{ROOT / 'native'}", "-o", str(driver)]
    if COMPILER is None or any(subprocess.run(step).returncode for step in ([COMPILER, *flags, str(empty)], [driver])):
        pytest.skip("needs a compiler with the thread sanitizer")
    sources = [str(ROOT / "native" / "pool.cpp"), str(ROOT / "tests" / "native" / "pool_driver.cpp")]
    subprocess.run([COMPILER, *flags, *sources], check=True)
    done = subprocess.run([driver], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr
