"""The measuring stick of streaming: how fast a file can be read past the page cache, in runs as large as experts are.

Several reads at a time at random places, as a cache of experts makes them. Reads are direct where the file system takes
that; elsewhere the pages are dropped before each.
"""

import mmap
import os
import random
import threading
import time
from pathlib import Path

RUN_BYTES = 2 << 20  # about a matrix of one expert
IN_FLIGHT = 8
SECONDS = 2.0
_DIRECT = getattr(os, "O_DIRECT", 0)
_SEED = 20261201


def read_speed(path: Path, seconds: float = SECONDS, run_bytes: int = RUN_BYTES, in_flight: int = IN_FLIGHT) -> float:
    """Bytes per second. OSError where the file cannot be read."""
    size_bytes = path.stat().st_size
    run_bytes = min(run_bytes, max(mmap.PAGESIZE, size_bytes - size_bytes % mmap.PAGESIZE))
    places = range(0, max(1, size_bytes - run_bytes), mmap.PAGESIZE)
    descriptor, is_direct = _opened(path)
    counts, errors = [0] * in_flight, list[OSError]()
    start_s = time.monotonic()

    def work(number: int) -> None:
        chance = random.Random(_SEED + number)
        with mmap.mmap(-1, run_bytes) as memory, memoryview(memory) as into:
            while time.monotonic() < start_s + seconds and not errors:
                try:
                    place = chance.choice(places)
                    if not is_direct:
                        os.posix_fadvise(descriptor, place, run_bytes, os.POSIX_FADV_DONTNEED)
                    counts[number] += os.preadv(descriptor, [into], place)
                except OSError as error:
                    errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(in_flight)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        os.close(descriptor)
    if errors:
        raise errors[0]
    return sum(counts) / (time.monotonic() - start_s)


def _opened(path: Path) -> tuple[int, bool]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _DIRECT)
        if _DIRECT:
            with mmap.mmap(-1, mmap.PAGESIZE) as memory, memoryview(memory) as into:
                try:
                    os.preadv(descriptor, [into], 0)  # some file systems open and then refuse
                except OSError:
                    os.close(descriptor)
                    raise
        return descriptor, bool(_DIRECT)
    except OSError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
