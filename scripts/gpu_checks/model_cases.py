"""Part `layers`: four layers of Flash, one of each kind, with few experts: the whole pass on kernels and on twins.

The weights have the real shapes, so this also compiles what the model for speed will need, in many processes at once.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gpu_checks.case import Case, CaseError
from gpu_checks.depth import deep_snapshot
from gpu_checks.setting import Setting
from whitedwarf.model.base import Span
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.seeded import SeededOps, seeded_tensors

PART = "layers"
LAYERS, EXPERTS = 4, 16
NEAR = 0.05  # of the logits, in the middle of all rows: a near choice of experts may fall otherwise


def cases(setting: Setting) -> Iterator[Case]:
    """Sequences, new tokens each, depth."""
    sizes = [(1, 1, 3000), (32, 1, 3000), (1, 2048, 0), (8, 1, 3000), (1, 1, 0), (2, 100, 600), (1, 4, 20000)]
    for count, rows, depth in [(1, 1, 90)] if setting.is_simulated else sizes:
        run = partial(_compare, setting, count, rows, depth)
        yield Case(PART, f"{count} of {rows} tokens at {depth}", run, needs_s=20, limit_s=240)


def _compare(setting: Setting, count: int, rows: int, depth: int) -> dict[str, Any]:
    config = ModelConfig(setting.small(LAYERS, EXPERTS))
    snapshot = deep_snapshot(config, depth, setting.slow.memory, setting.draw(f"layers {depth}"))
    ids = np.random.default_rng(1).integers(0, config.vocab_size, (count, rows)).astype(np.int32)
    results = []
    for ops in (setting.fast, setting.slow)[: 1 if rows > 1000 else 2]:  # the twins take a row at a time
        model = Transformer.load(seeded_tensors(config.hp), config, SeededOps.around(ops))
        states = [model.new_state() for _ in range(count)]
        for state in states:
            state.restore(snapshot)
        spans = [Span(state, own, "last") for state, own in zip(states, ids, strict=True)]
        results.append(np.concatenate(model.forward(spans)))
    if not np.isfinite(results[0]).all():
        raise CaseError("some logits are no numbers")
    if len(results) == 1:
        return {"error": 0.0, "limit": NEAR}
    actual, expected = results
    errors = np.linalg.norm(actual - expected, axis=1) / np.linalg.norm(expected, axis=1)
    figures = {"error": float(np.median(errors)), "most": float(errors.max()), "limit": NEAR}
    if not figures["error"] <= NEAR:
        raise CaseError(f"logits differ by {figures['error']:.2e} of their norm", **figures)
    return figures
