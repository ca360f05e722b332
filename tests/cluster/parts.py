"""The bundled model, a small synthetic one, and parts of both, for the tests of the cluster."""

import functools
import itertools
from pathlib import Path

import numpy as np

from oracle.engines import backend
from oracle.fixtures import oracle_file
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Ids
from whitedwarf.model.config import KvCache
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.weights.store import bundled_model

SYNTHETIC = "tinyA/tiny-mxfp4.gguf"


def file_of(name: str) -> Path:
    return bundled_model() if name == "nano" else oracle_file(name)


@functools.cache
def part(name: str, kv_cache: KvCache, start: int, end: int) -> Transformer:
    """Layers `start` to `end` - 1, alone."""
    return load_model(open_gguf(file_of(name)), backend("cpu", quality=False), kv_cache, range(start, end)).transformer


@functools.cache
def whole(name: str, kv_cache: KvCache = "packed") -> Transformer:
    return load_model(open_gguf(file_of(name)), backend("cpu", quality=False), kv_cache).transformer


def parts(name: str, kv_cache: KvCache, *cuts: int) -> list[Transformer]:
    """The model cut before these layers."""
    ends = [0, *cuts, whole(name, kv_cache).config.hp.num_layers]
    return [part(name, kv_cache, start, end) for start, end in itertools.pairwise(ends)]


def tokens(count: int, seed: int = 0, vocab: int = 512) -> Ids:
    return np.random.default_rng(seed).integers(0, vocab, count).astype(np.int32)
