"""Recordings of decode passes: a thousand small kernels started as one CUDA graph, with the numbers of each pass.

The first pass of a kind runs as it is, which compiles its kernels; the second is captured; later ones are replayed. A
recording reads its numbers where they lay when it was made, so they must lie there again: see ops/arena.py. Rows of
sequences may move, as their addresses are among those numbers. Whatever is no decode runs as it is, and so does
everything once captures have failed.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from whitedwarf.ops.arena import Arena
from whitedwarf.ops.base import P, Pass

logger = logging.getLogger(__name__)

MOST_RECORDINGS = 64
FIRST_BUCKET = 64
MOST_FAILURES = 3

Replay: TypeAlias = Callable[[], Any]
Key: TypeAlias = tuple[Any, ...]


class GraphMaker(Protocol):
    """How calls are recorded on a device."""

    def record(self, run: Callable[[], Any]) -> Replay:
        """Record what `run` does, without any effect yet; every replay's result is in the same memory.

        RuntimeError where that cannot be.
        """


class CudaGraphs:
    """CUDA's (and HIP's) graphs, all in one pool of memory: one at a time is replayed, and its result read at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = None

    def record(self, run: Callable[[], Any]) -> Replay:
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream()
            graph = torch.cuda.CUDAGraph()
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            try:
                with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                    result = run()
            finally:
                torch.cuda.set_stream(stream)  # a capture that fails may leave its own in place

        def replay() -> Any:
            graph.replay()
            return result

        return replay


@dataclass(slots=True)
class Recording:
    """One kind of pass. It keeps alive what its addresses belong to."""

    held: tuple[Any, ...]
    replay: Replay | None = None  # None: has run once as it is


class Recorder:
    """Runs passes of one backend, and records those that will come again. `maker` None: runs them all as they are."""

    def __init__(self, arena: Arena, maker: GraphMaker | None, most: int = MOST_RECORDINGS) -> None:
        self.arena = arena
        self.most = most
        self.num_replayed = 0
        self._maker = maker
        self._recordings: OrderedDict[Key, Recording] = OrderedDict()  # the one used last is at the end
        self._num_failures = 0

    def passing(self, run: Callable[[P], Any], batch: P) -> Any:
        """run(batch), or a replay with the numbers that lie in the arena. Its result is good until the next pass."""
        key = self._key(run, batch)
        if key is None or self._maker is None:
            return run(batch)
        recording = self._recordings.get(key)
        if recording is None:
            self._keep(key, Recording((run, self.arena.current)))
            return run(batch)
        self._recordings.move_to_end(key)
        if recording.replay is None:
            recording.replay = self._record(self._maker, run, batch)
            if recording.replay is None:
                return run(batch)
        self.num_replayed += 1
        return recording.replay()

    def forget(self) -> None:
        """Drop all recordings, and with them what they keep alive."""
        self._recordings.clear()

    @property
    def num_recordings(self) -> int:
        return sum(recording.replay is not None for recording in self._recordings.values())

    def _key(self, run: Callable[[P], Any], batch: Pass) -> Key | None:
        """None for what is not recorded: no decode, numbers in memory of their own, or a run that nobody owns."""
        owner, function = getattr(run, "__self__", None), getattr(run, "__func__", None)
        if owner is None or not batch.is_decode or (stamp := self.arena.stamp) is None:
            return None
        return id(owner), function, batch.sizes, stamp

    def _record(self, maker: GraphMaker, run: Callable[[P], Any], batch: P) -> Replay | None:
        try:
            return maker.record(lambda: run(batch))
        except RuntimeError as error:
            self._num_failures += 1
            if self._num_failures == 1:
                logger.warning("a decode pass could not be recorded and runs kernel by kernel, slower: %s", error)
            if self._num_failures == MOST_FAILURES:
                self._maker = None
            return None

    def _keep(self, key: Key, recording: Recording) -> None:
        self._recordings[key] = recording
        if len(self._recordings) > self.most:
            self._recordings.popitem(last=False)


def bucket(count: int) -> int:
    """The least of 64, 96, 128, 192, 256 ... that is not below: for few kinds of passes while sequences grow."""
    power = FIRST_BUCKET
    while power < count:
        power *= 2
    return power * 3 // 4 if power > FIRST_BUCKET and count <= power * 3 // 4 else power


def closing_windows(count: int, num_spans: int, num_rows: int) -> int:
    """Room for a window of every row where every span is one row, whether or not it closes; else just enough."""
    return num_rows if num_spans == num_rows else count
