"""What models need and what the machine has, from files that a test made."""

import asyncio
from pathlib import Path

import pytest

from fakes.launches import managed
from whitedwarf.supervisor import memory
from whitedwarf.supervisor.config import Backend

pytestmark = pytest.mark.anyio

GIB = 1 << 30


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sparse(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_model_needs_its_file_its_context_and_its_program(tmp_path: Path) -> None:
    path = sparse(tmp_path / "m.gguf", 4 * GIB)
    small = memory.estimated_bytes(path, 4096, Backend.LLAMA_SERVER)
    large = memory.estimated_bytes(path, 131_072, Backend.LLAMA_SERVER)
    assert 4 * GIB < small < 5 * GIB
    assert 8 * GIB < large < 12 * GIB
    assert memory.estimated_bytes(path, 131_072, Backend.WHITEDWARF) < large


def test_all_parts_of_a_split_file_count(tmp_path: Path) -> None:
    for index in (1, 2, 3):
        sparse(tmp_path / f"m-{index:05}-of-00003.gguf", GIB)
    found = memory.estimated_bytes(tmp_path / "m-00001-of-00003.gguf", 1, Backend.WHITEDWARF)
    assert 3 * GIB < found < 4 * GIB


def test_what_people_say_counts_and_what_is_not_there_needs_nothing() -> None:
    assert memory.needed_bytes(managed("m", memory_bytes=5)) == 5
    assert memory.needed_bytes(managed("m")) == 0


def machine(root: Path, available_gib: int | None = 100, **groups: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    if available_gib is not None:
        meminfo = f"MemTotal: 1 kB\nMemAvailable:   {available_gib * 1024 * 1024} kB\n"
        (root / "proc/meminfo").write_text(meminfo)
    for name, text in groups.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_machine_sets_the_budget(tmp_path: Path) -> None:
    assert memory.automatic_budget(machine(tmp_path)) == int(100 * GIB * 0.9)


def test_a_machine_that_says_nothing_has_no_budget(tmp_path: Path) -> None:
    assert memory.automatic_budget(machine(tmp_path, None)) is None


def test_a_control_group_around_us_sets_the_budget(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("0::/box.slice/us\n")
    box = root / "sys/fs/cgroup/box.slice"
    (box / "us").mkdir(parents=True)
    (box / "us/memory.max").write_text("max\n")
    (box / "us/memory.current").write_text("5\n")
    (box / "memory.max").write_text(f"{20 * GIB}\n")
    (box / "memory.current").write_text(f"{12 * GIB}\n")
    (box / "memory.stat").write_text(f"anon 1\ninactive_file {2 * GIB}\n")
    assert memory.automatic_budget(root) == int(10 * GIB * 0.9)


def test_an_old_control_group_sets_the_budget_too(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "proc/self/cgroup").write_text("5:memory:/us\n1:cpu:/us\nnonsense\n")
    group = root / "sys/fs/cgroup/memory/us"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(f"{8 * GIB}\n")
    (group / "memory.usage_in_bytes").write_text(f"{3 * GIB}\n")
    assert memory.automatic_budget(root) == int(5 * GIB * 0.9)


def test_this_machine_has_some_memory() -> None:
    assert (memory.automatic_budget() or GIB) > 0


@pytest.mark.parametrize(
    ("readings", "asked"), [([900, 500, 100, 100, 100], 4), ([100, 100], 2), ([None], 1), ([900, None], 2)]
)
async def test_memory_of_a_gpu_is_waited_for_while_it_falls(readings: list[int | None], asked: int) -> None:
    left = list(readings)

    async def used() -> int | None:
        return left.pop(0)

    await memory.settled(used, pause_s=0)
    assert len(readings) - len(left) == asked


async def test_memory_that_falls_for_ever_is_not_waited_for_that_long() -> None:
    reading = 10**9

    async def used() -> int | None:
        nonlocal reading
        reading -= 1
        await asyncio.sleep(0)
        return reading

    async with asyncio.timeout(5):
        await memory.settled(used, timeout_s=0.05, pause_s=0)


@pytest.mark.parametrize(
    ("script", "found"), [("echo 512; echo ' 1024 '", 1536), ("echo No devices; exit 9", None), ("echo N/A", None)]
)
async def test_nvidia_smi_is_asked_where_there_is_one(
    script: str, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert await memory.graphics_memory_used() == found


async def test_a_machine_without_nvidia_smi_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with asyncio.timeout(5):
        await memory.settled()


async def test_a_hanging_nvidia_smi_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    async with asyncio.timeout(5):
        await memory.settled(timeout_s=0.1)
