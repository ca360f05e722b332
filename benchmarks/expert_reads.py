"""How fast experts come from a disk: the direct reader with several reads in flight, beside page faults of a mapping.

    python benchmarks/expert_reads.py FILE [--gigabytes 4] [--experts 120] [--rounds 5]

FILE is made of random bytes where there is none, and kept. Each figure reads so many experts of 7 MB, in an order drawn
anew, of a file that is not in the page cache. Medians and spread; the last line is JSON.
"""

import argparse
import json
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from whitedwarf.weights.direct_reader import DirectReader, room_bytes
from whitedwarf.weights.expert_extents import Extent
from whitedwarf.weights.locked_memory import AnonymousMemory

MATRICES = (2_162_688, 2_162_688, 2_752_512)  # IQ2_XXS, IQ2_XXS, Q2_K of 4096 x 2048
SKEW = 1_312  # nothing begins at a block
Expert = tuple[Extent, Extent, Extent]


def make(path: Path, size_bytes: int) -> None:
    if path.exists() and path.stat().st_size >= size_bytes:
        return
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for _ in range(size_bytes >> 24):
            file.write(rng.bytes(1 << 24))
        os.fsync(file.fileno())


def experts_of(path: Path) -> list[Expert]:
    """Three stacks, one behind the other."""
    count = (path.stat().st_size - SKEW) // sum(MATRICES)
    starts = [SKEW + sum(MATRICES[:role]) * count for role in range(3)]
    places = zip(MATRICES, starts, strict=True)
    sizes = [(size, start) for size, start in places]
    return [
        tuple(Extent(0, start + number * size, size) for size, start in sizes)  # type: ignore[misc]
        for number in range(count)
    ]


def forget(path: Path) -> None:
    """Out of the page cache with it."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def direct(path: Path, experts: list[Expert], in_flight: int, piece_bytes: int, ahead: int) -> float:
    """Seconds; `ahead` experts are asked for at a time, as a layer asks for its own."""
    rooms = [room_bytes(size) for size in MATRICES]
    memory = AnonymousMemory(sum(rooms) * ahead).view()
    memory[:] = bytes(len(memory))  # every page is there
    with DirectReader([path], in_flight, piece_bytes=piece_bytes) as reader:
        began = time.perf_counter()
        for first in range(0, len(experts), ahead):
            readings, offset = [], 0
            for expert in experts[first : first + ahead]:
                for extent, room in zip(expert, rooms, strict=True):
                    readings.append(reader.begin(extent, memory[offset : offset + room]))
                    offset += room
            for reading in readings:
                reading.wait()
        return time.perf_counter() - began


def mapped(path: Path, experts: list[Expert], advice: str | None, *, will_need: bool, ahead: int) -> float:
    """Every page is touched by one thread, as a kernel would that reads weights in place."""
    descriptor = os.open(path, os.O_RDONLY)
    view = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    os.close(descriptor)
    if advice is not None:
        view.madvise(getattr(mmap, advice))
    numbers, total = np.frombuffer(view, np.uint8), 0
    began = time.perf_counter()
    for first in range(0, len(experts), ahead):
        group = experts[first : first + ahead]
        if will_need:
            for extent in (extent for expert in group for extent in expert):
                start = extent.offset_bytes // mmap.PAGESIZE * mmap.PAGESIZE
                view.madvise(mmap.MADV_WILLNEED, start, extent.offset_bytes + extent.size_bytes - start)
        for extent in (extent for expert in group for extent in expert):
            total += int(numbers[extent.offset_bytes : extent.offset_bytes + extent.size_bytes : 4096].sum())
    return time.perf_counter() - began


def measure(name: str, run: Callable[[list[Expert]], float], path: Path, count: int, rounds: int) -> dict[str, object]:
    experts, rng, rates = experts_of(path), np.random.default_rng(7), []
    for _ in range(rounds):
        forget(path)
        chosen = [experts[int(number)] for number in rng.choice(len(experts), count, replace=False)]
        rates.append(count * sum(MATRICES) / run(chosen) / 1e9)
    result = {"name": name, "gb_per_s": statistics.median(rates), "least": min(rates), "most": max(rates)}
    print(f"{name:44s} {result['gb_per_s']:6.2f} GB/s  ({min(rates):.2f} to {max(rates):.2f})", file=sys.stderr)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4.3)
    parser.add_argument("--experts", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    make(given.file, int(given.gigabytes * 1e9))
    path, results = given.file, []

    def add(name: str, run: Callable[[list[Expert]], float]) -> None:
        results.append(measure(name, run, path, given.experts, given.rounds))

    for ahead in (6, 1):
        for in_flight in (1, 2, 4, 8, 16):
            for piece_mb in (1, 4):
                name = f"direct, {ahead} experts at a time, {in_flight} in flight, pieces of {piece_mb} MiB"
                add(
                    name,
                    lambda experts, n=in_flight, p=piece_mb, a=ahead: direct(path, experts, n, p << 20, a),  # type: ignore[misc]
                )
    for advice in (None, "MADV_RANDOM", "MADV_SEQUENTIAL"):
        add(f"mapped, {advice or 'no advice'}", lambda e, a=advice: mapped(path, e, a, will_need=False, ahead=6))  # type: ignore[misc]
    add("mapped, MADV_WILLNEED for 6 experts", lambda e: mapped(path, e, None, will_need=True, ahead=6))
    print(json.dumps({"matrices": MATRICES, "experts": given.experts, "results": results}))


if __name__ == "__main__":
    main()
