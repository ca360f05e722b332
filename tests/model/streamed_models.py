"""Models whose experts come from a store, for tests of several kinds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.streamed_expert_ops import StreamedExpertOps
from whitedwarf.weights.direct_reader import DirectReader
from whitedwarf.weights.expert_extents import expert_extents
from whitedwarf.weights.expert_store import ExpertStore
from whitedwarf.weights.os_files import Files


@dataclass(frozen=True, slots=True)
class Streamed:
    """A model, and what it reads from."""

    model: Transformer
    ops: StreamedExpertOps
    store: ExpertStore
    reader: DirectReader


@contextmanager
def opened_ops(
    gguf: GgufFile, slots: int, threads: int = 1, quality: bool = False, level: str = "auto", files: Files | None = None
) -> Iterator[StreamedExpertOps]:
    with (
        DirectReader(gguf.paths, files=files) as reader,
        ExpertStore(expert_extents(gguf), reader, num_slots=slots) as store,
    ):
        yield StreamedExpertOps(store, reader, gguf, threads, quality, level)


@contextmanager
def streamed(
    gguf: GgufFile, slots: int, threads: int = 1, quality: bool = False, level: str = "auto", files: Files | None = None
) -> Iterator[Streamed]:
    """With room for so many experts in memory."""
    with opened_ops(gguf, slots, threads, quality, level, files) as ops:
        yield Streamed(load_model(gguf, ops).transformer, ops, ops.store, ops._reader)
