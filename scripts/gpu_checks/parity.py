"""Part `parity`: whole models on the fast backend against the CPU: nano, and the tiny synthetic ones of other quants.

The truth is the native backend where its module is built, else numpy's. Nearly all tokens must be the same, and nearly
all logits near: many rows are multiplied in bf16. Recorded passes must give the very bits of others.
"""

import lzma
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpu_checks.case import Case, CaseError
from gpu_checks.setting import Setting
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.config import KvCache
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.weights.store import bundled_model

PART = "parity"
ORACLE = Path(__file__).resolve().parents[2] / "tests" / "golden" / "oracle"
FILES = {
    "nano": None,
    "mxfp4": ORACLE / "tinyA" / "tiny-mxfp4.gguf",
    "iq2": ORACLE / "tinyQ" / "tiny-iq2.gguf.xz",
    "f32": ORACLE / "tinyA" / "tiny-f32.gguf.xz",
}
MOST, SAME_TOKENS = 0.9, 0.9  # a near choice of experts or rows may fall otherwise, and then all is otherwise
NEAR = {"f32": 2e-2, "packed": 6e-2}  # of a row's logits: many rows are multiplied in bf16, rows rounded to neighbours


@dataclass
class Pair:
    """One file on two backends."""

    setting: Setting
    name: str
    cache: KvCache
    _made: dict[str, Transformer] = field(default_factory=dict)

    @cached_property
    def gguf(self) -> Any:
        path = FILES[self.name]
        if path is None:
            return open_gguf(bundled_model())
        if path.suffix != ".xz":
            return open_gguf(path)
        with tempfile.NamedTemporaryFile(suffix=".gguf", delete=False) as file:
            file.write(lzma.decompress(path.read_bytes()))
        return open_gguf(file.name)

    @cached_property
    def truth(self) -> Transformer:
        return load_model(self.gguf, truth_ops(), self.cache).transformer

    @cached_property
    def model(self) -> Transformer:
        return load_model(self.gguf, self.setting.fast, self.cache).transformer

    @cached_property
    def unrecorded(self) -> Transformer:
        return load_model(self.gguf, self.setting.backend(records=False), self.cache).transformer

    def ids(self, count: int, seed: int = 0) -> np.ndarray:
        vocabulary = self.truth.config.vocab_size
        return np.random.default_rng(seed).integers(0, vocabulary, count).astype(np.int32)


def truth_ops() -> Any:
    """The native backend at its most exact, else numpy's."""
    try:
        from whitedwarf.ops.cpu import CpuOps

        return CpuOps(0, quality=True)
    except (ImportError, RuntimeError):
        from whitedwarf.ops.reference import ReferenceOps

        return ReferenceOps()


def cases(setting: Setting) -> Iterator[Case]:
    """Files of several quants, then steps of many sequences, then recordings."""
    length = 40 if setting.is_simulated else 280
    kinds: Sequence[tuple[str, KvCache]] = (("nano", "packed"), ("iq2", "packed"))
    if not setting.is_simulated:
        kinds = (*kinds, ("mxfp4", "packed"), ("nano", "f32"), ("f32", "f32"))
    steps = 4 if setting.is_simulated else 60
    for name, cache in kinds:
        pair = Pair(setting, name, cache)
        for what, run in (
            ("prompt", partial(_prompt, pair, length)),
            ("chunks", partial(_chunks, pair, length)),
            ("decode", partial(_decode, pair, steps // 2)),
            ("recorded", partial(_recorded, pair, steps)),
        ):
            yield Case(PART, f"{name} {cache} {what}", run, needs_s=5, limit_s=150, group=f"{name} {cache}")


def _prompt(pair: Pair, length: int) -> dict[str, Any]:
    """All logits of a prompt read at once."""
    ids = pair.ids(length)
    [expected], [actual] = (m.forward([Span(m.new_state(), ids, "all")]) for m in (pair.truth, pair.model))
    return {"truth": pair.truth.ops.name} | _judge(actual, expected, pair.cache)


def _chunks(pair: Pair, length: int) -> dict[str, Any]:
    """The same in pieces, few rows and many, beside another sequence."""
    ids = pair.ids(length)
    [expected] = pair.truth.forward([Span(pair.truth.new_state(), ids, "all")])
    state, other, pieces = pair.model.new_state(), pair.model.new_state(), []
    ends = [0, length // 3, length // 3 + 1, length // 2, length - 2, length]
    for start, end in pairwise(ends):
        spans = [Span(other, pair.ids(7, start), "last"), Span(state, ids[start:end], "all")]
        pieces.append(pair.model.forward(spans)[1])
    return _judge(np.concatenate(pieces), expected, pair.cache)


def _decode(pair: Pair, steps: int) -> dict[str, Any]:
    """Greedy tokens of several sequences side by side; both go on with the truth's."""
    count = 3 if pair.setting.is_simulated else 10
    models = pair.truth, pair.model
    states = [[model.new_state() for _ in range(count)] for model in models]
    ids = [pair.ids(5 * (i + 1), i) for i in range(count)]
    all_expected, all_actual = [], []
    for _ in range(steps):
        expected, actual = (
            np.concatenate(model.forward([Span(*own) for own in zip(held, ids, strict=True)]))
            for model, held in zip(models, states, strict=True)
        )
        all_expected.append(expected)
        all_actual.append(actual)
        ids = [np.array([best], np.int32) for best in expected.argmax(axis=1)]
    return _judge(np.concatenate(all_actual), np.concatenate(all_expected), pair.cache)


def _recorded(pair: Pair, steps: int) -> dict[str, Any]:
    """Decode with recordings gives the bits of decode without; sequences come and go, and grow past a bucket."""
    models = pair.model, pair.unrecorded
    states = [[model.new_state() for _ in range(3)] for model in models]
    for model, held in zip(models, states, strict=True):
        lengths = (9, 20, 40) if pair.setting.is_simulated else (110, 180, 250)
        model.forward([Span(state, pair.ids(lengths[i], i), "none") for i, state in enumerate(held)])
    recorder = getattr(models[0].ops, "recorder", None)
    before = recorder.num_replayed if recorder else 0
    for step in range(steps):
        some = [[0], [0, 1, 2], [2, 1]][step * 3 // steps]
        ids = pair.ids(3, step)
        ours, theirs = (
            np.concatenate(model.forward([Span(held[i], ids[i : i + 1]) for i in some]))
            for model, held in zip(models, states, strict=True)
        )
        if not (ours == theirs).all():
            raise CaseError(f"step {step} of {steps}: logits differ by up to {np.abs(ours - theirs).max():.2e}")
    replayed = (recorder.num_replayed if recorder else 0) - before
    if recorder and pair.setting.device.type == "cuda" and replayed < steps // 2:
        raise CaseError(f"only {replayed} of {steps} steps were replayed", replayed=replayed)
    return {"replayed": replayed}


def _judge(actual: np.ndarray, expected: np.ndarray, cache: KvCache) -> dict[str, Any]:
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    is_same = actual.argmax(axis=1) == expected.argmax(axis=1)
    figures = {
        "error": float(errors.max()),
        "most_errors": float(np.quantile(errors, MOST)),
        "median_error": float(np.median(errors)),
        "limit": NEAR[cache],
        "tokens": len(actual),
        "same_tokens": int(is_same.sum()),
    }
    if not figures["most_errors"] <= NEAR[cache]:
        raise CaseError(f"logits differ by {figures['most_errors']:.2e}, at most {NEAR[cache]:.0e} expected", **figures)
    if is_same.mean() < SAME_TOKENS:
        raise CaseError(f"{len(actual) - int(is_same.sum())} of {len(actual)} tokens are others", **figures)
    return figures
