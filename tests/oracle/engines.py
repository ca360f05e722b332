"""Our own engine on the oracle's files: load, run in any chunks, decode greedily, watch what was picked."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from oracle.fixtures import oracle_file
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.ops.select import make_ops

BACKENDS = ("reference", "cpu")


@functools.cache
def backend(name: str, quality: bool = True) -> Ops:
    return make_ops(name, threads=2, quality=quality)


@functools.cache
def model_at(path: Path, name: str = "cpu", kv_cache: str = "f32", quality: bool = True) -> Transformer:
    return load_model(open_gguf(path), backend(name, quality), kv_cache).transformer


def oracle_model(file: str, name: str = "cpu", kv_cache: str = "f32", quality: bool = True) -> Transformer:
    return model_at(oracle_file(file), name, kv_cache, quality)


def pieces(ids: np.ndarray, sizes: Iterable[int]) -> Iterator[np.ndarray]:
    """Cut `ids` into pieces of the given sizes, the last one taking what is left."""
    start = 0
    for size in sizes:
        if start < len(ids):
            yield ids[start : start + size]
        start += size
    if start < len(ids):
        yield ids[start:]


def logits_of(model: Transformer, ids: np.ndarray, chunk: int | None = None) -> np.ndarray:
    """Logits at every position (n, V), prefilled in chunks (None: at once)."""
    chunk = chunk or len(ids)
    return run(model, model.new_state(), pieces(ids, [chunk] * (len(ids) // chunk)))


def run(model: Transformer, state, parts: Iterable[np.ndarray]) -> np.ndarray:
    """Feed the parts one after the other; logits of all their positions."""
    return np.concatenate([model.forward([Span(state, part.astype(np.int32), "all")])[0] for part in parts])


def greedy(model: Transformer, ids: np.ndarray, num_tokens: int) -> list[int]:
    """The tokens of greedy decoding, one forward pass each."""
    state, out = model.new_state(), []
    part = ids.astype(np.int32)
    for _ in range(num_tokens):
        logits = model.forward([Span(state, part, "last")])[0]
        out.append(int(logits[0].argmax()))
        part = np.array(out[-1:], np.int32)
    return out


def watched(model: Transformer, ids: np.ndarray) -> dict[tuple[str, int], np.ndarray]:
    """Everything the model shows to an observer during one pass over `ids`, by name and layer."""
    seen: dict[tuple[str, int], list[np.ndarray]] = defaultdict(list)
    model.forward(
        [Span(model.new_state(), ids.astype(np.int32), "all")],
        observe=lambda name, layer, rows: seen[name, layer].append(rows.copy()),
    )
    return {key: np.concatenate(rows) for key, rows in seen.items()}
