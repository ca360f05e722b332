"""Programs that are not ours, as scripts/install_real_parts.py left them: the real DSH and a real llama-server."""

import os
import platform
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx2
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


def runs_quantised_caches(llama_server: Path, model: Path) -> bool:
    """Whether it starts with the cache types that the supervisor gives it: on x86-64 its build needs AVX-VNNI for them.

    Zen 4 has AVX-512 without it and ends the program with an illegal instruction.
    """
    return _starts(llama_server, model, ["--cache-type-k", "q8_0", "--cache-type-v", "q4_0"])


def runs_here(llama_server: Path, model: Path) -> Path:
    """The program itself. Skipped where it ends with an illegal instruction: on x86-64 its build needs AVX-512."""
    if not _starts(llama_server, model, []):
        pytest.skip("llama-server: this build has instructions (AVX-512) that this processor has not")
    return llama_server


def _starts(llama_server: Path, model: Path, more: list[str]) -> bool:
    """Whether it starts, or fails in another way than by an illegal instruction."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(llama_server), "-m", str(model), "--port", str(port), "-c", "256", "-np", "1", *more]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline_s = time.monotonic() + 60
        while server.poll() is None and time.monotonic() < deadline_s and not _is_healthy(port):
            time.sleep(0.05)
        ended = server.poll()
        server.kill()
    return ended != -signal.SIGILL


def with_plain_caches(llama_server: Path, wrapper: Path) -> Path:
    """The same program, whose last words are always f16 caches; `exec` keeps it one process."""
    words = "--cache-type-k f16 --cache-type-v f16"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(str(llama_server))} "$@" {words}\n', encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper


def _is_healthy(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


def _has_wheels() -> bool:
    """Linux on x86-64 with glibc 2.35: for it both parts are published."""
    name, version = platform.libc_ver()
    is_new = name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= (2, 35)
    return platform.system() == "Linux" and platform.machine() == "x86_64" and is_new
