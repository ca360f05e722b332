"""Part `spans`: the operations that work on sequences' own rows (pool, pick, attend), one layer of each kind.

Both backends get equal sequences of some depths; what they return is compared, and what they leave in the stores.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpu_checks.case import Case, CaseError
from gpu_checks.compare import EXACT, ROUNDED, check_all
from gpu_checks.depth import deep_snapshot
from gpu_checks.setting import Draw, Setting
from whitedwarf.model.base import Span
from whitedwarf.model.batch import Batch
from whitedwarf.model.config import KvCache, ModelConfig
from whitedwarf.model.rope import Rope
from whitedwarf.model.state import SequenceState
from whitedwarf.ops.base import Pooling, Visible
from whitedwarf.ops.spans import Pool
from whitedwarf.ops.twins.rows import encode_rows

PART = "spans"
LAYERS = {0: 0, 4: 2, 128: 3}  # an example of each ratio
PATTERNS: dict[str, tuple[tuple[int, int], ...]] = {  # depth and new tokens of each sequence
    "decode from nothing": ((0, 1),),
    "decode 1 deep": ((9000, 1),),
    "decode 4 mixed": ((3, 1), (127, 1), (700, 1), (20000, 1)),
    "decode 1 very deep": ((70000, 1),),
    "decode 32": tuple((500 * i + i, 1) for i in range(32)),
    "drafts": ((250, 4), (4001, 4)),
    "chunk from nothing": ((0, 300),),
    "chunk deep": ((5000, 500),),
    "chunk and decode": ((130, 100), (6000, 1), (64, 63)),
}
SIMULATED = {"decode from nothing": ((0, 1),), "decode 4 mixed": ((3, 1), (127, 1), (300, 1)), "drafts": ((90, 4),)}


@dataclass
class Run:
    """One backend with its own sequences and the pass over them."""

    ops: Any
    states: list[SequenceState]
    batch: Batch


def cases(setting: Setting) -> Iterator[Case]:
    caches: tuple[KvCache, ...] = ("packed",) if setting.is_simulated else ("packed", "f32", "f16")
    for cache in caches:
        for name, pattern in (SIMULATED if setting.is_simulated else PATTERNS).items():
            for ratio in LAYERS:
                if cache == "packed" or (name in ("decode 4 mixed", "chunk and decode") and ratio != 128):
                    yield _case(setting, cache, ratio, name, pattern)


def _case(setting: Setting, cache: KvCache, ratio: int, name: str, pattern: tuple[tuple[int, int], ...]) -> Case:
    title = f"ratio {ratio} {cache} {name}"
    return Case(PART, title, lambda: _compare(setting, cache, ratio, pattern, setting.draw(title)))


def _compare(
    setting: Setting, cache: KvCache, ratio: int, pattern: tuple[tuple[int, int], ...], draw: Draw
) -> dict[str, Any]:
    config = ModelConfig(setting.small(4, 8), cache)
    fast, slow = _runs(setting, config, pattern, draw)
    n, layer, hp = sum(count for _, count in pattern), LAYERS[ratio], config.hp
    figures: dict[str, Any] = {}
    if ratio:
        figures["pool"] = _pool(config, (fast, slow), ratio, Pool.ROWS, n, draw)["same"]
    picked = None
    if ratio == 4:
        figures["pool_keys"] = _pool(config, (fast, slow), ratio, Pool.KEYS, n, draw)["same"]
        picked, figures["picked"] = _pick(config, (fast, slow), n, draw)
    queries = draw.floats(n, hp.num_heads, hp.head_dim)
    rows = encode_rows(draw.floats(n, hp.head_dim), config.kv_format)
    sinks, turns = draw.floats(hp.num_heads), draw.turns(n, hp.rope_dims)
    outs = []
    for run in (fast, slow):
        visible = Visible(run.batch.positions, hp.sliding_window)
        if ratio:
            windows = run.batch.windows[ratio]
            visible = Visible(run.batch.positions, hp.sliding_window, windows.counts, picked, windows.most)
        own = config.kv_format, visible, sinks, turns
        outs.append(run.ops.attend(run.batch.spans, layer, queries.clone(), rows.clone(), *own))
    figures |= check_all(outs[:1], outs[1:], ROUNDED)
    _check_windows(fast, slow, layer)
    return figures


def _runs(setting: Setting, config: ModelConfig, pattern: tuple[tuple[int, int], ...], draw: Draw) -> tuple[Run, Run]:
    snapshots = {depth: deep_snapshot(config, depth, setting.slow.memory, draw) for depth, _ in pattern}
    ropes = Rope.plain(config.hp), Rope.compressed(config.hp)
    runs = []
    for ops in (setting.fast, setting.slow):
        states, spans = [], []
        for depth, count in pattern:
            state = SequenceState(config, config.hp.compress_ratios, ops.memory)
            state.restore(snapshots[depth])
            states.append(state)
            spans.append(Span(state, np.zeros(count, np.int32)))
        runs.append(Run(ops, states, Batch.of(spans, ops, *ropes, config.vocab_size)))
    return runs[0], runs[1]


def _pool(config: ModelConfig, runs: tuple[Run, Run], ratio: int, which: Pool, n: int, draw: Draw) -> dict[str, Any]:
    format = config.kv_format if which is Pool.ROWS else config.key_format
    width, layer = format.dims * (2 if ratio == 4 else 1), LAYERS[ratio]
    values, gates = draw.floats(n, width), draw.floats(n, width)
    how = Pooling(ratio, draw.floats(ratio, width), draw.floats(format.dims), 1e-6, format)
    for run in runs:
        run.ops.pool(run.batch.spans, layer, which, values, gates, how, run.batch.windows[ratio].turns)
    stored: list[list[Any]] = [[], []]
    for run, own in zip(runs, stored, strict=True):
        for part, state in zip(run.batch.parts, run.states, strict=True):
            held = state.layers[layer].compressor if which is Pool.ROWS else state.layers[layer].indexer
            own.append(held.rows.upto(part.end // ratio)[part.start // ratio :])
            own.append(held.values.newest(part.end))
            own.append(held.gates.newest(part.end))
    return check_all([torch.cat(stored[0][::3])], [torch.cat(stored[1][::3])], EXACT, format) | check_all(
        [row for i, row in enumerate(stored[0]) if i % 3], [row for i, row in enumerate(stored[1]) if i % 3], EXACT
    )


def _pick(config: ModelConfig, runs: tuple[Run, Run], n: int, draw: Draw) -> tuple[Any, Any]:
    """What the slow one picks, and the share of it that the fast one picks too."""
    hp, format, layer = config.hp, config.key_format, LAYERS[4]
    flat, weights = draw.floats(n, hp.index_heads * hp.index_head_dim), draw.floats(n, hp.index_heads)
    turns = draw.turns(n, hp.rope_dims)
    queries = runs[1].ops.index_query(flat, hp.index_heads, turns, format)
    picks = []
    for run in runs:
        windows = run.batch.windows[4]
        own = format, windows.counts, windows.most, hp.index_topk
        picks.append(run.ops.pick(run.batch.spans, layer, queries, weights, *own))
    fast, slow = picks
    if slow is None:
        return None, None
    if fast is None:
        raise CaseError("the fast backend picks nothing where there is a choice")
    shares = [_overlap(one, other) for one, other in zip(fast.cpu().numpy(), slow.cpu().numpy(), strict=True)]
    if min(shares) < 0.98 or any((np.diff(row[row >= 0]) <= 0).any() for row in fast.cpu().numpy()):
        raise CaseError(f"only {min(shares):.1%} of a query's picks are the same, or they do not ascend")
    return slow, min(shares)


def _overlap(one: np.ndarray, other: np.ndarray) -> float:
    if (one >= 0).sum() != (other >= 0).sum():
        return 0.0
    return len(np.intersect1d(one, other)) / max(len(np.unique(other)), 1)


def _check_windows(fast: Run, slow: Run, layer: int) -> None:
    """Both have the same newest rows now."""
    for part, one, other in zip(fast.batch.parts, fast.states, slow.states, strict=True):
        held = [state.layers[layer].window.newest(part.end) for state in (one, other)]
        if not torch.equal(*held):
            raise CaseError(f"the windows of the sequence at {part.start} differ")
