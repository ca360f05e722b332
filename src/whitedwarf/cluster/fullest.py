"""What a state takes of the machine that keeps most of it, from what it takes here.

A budget of memory is meant for every machine. A coordinator sees only its own layers' share of a state; a stage with
three times as many layers keeps three times as much. So states here say what they take there. Arithmetic alone: nobody
is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import LayerState


@dataclass(frozen=True, slots=True)
class Fullest:
    """The fullest machine's share as a multiple of ours: of what a state has for itself, and of its rows, which it
    shares. Where our layers have no such rows, `row_bytes` are what a token adds there."""

    own: float = 1.0
    rows: float = 1.0
    row_bytes: float = 0.0

    @classmethod
    def of(cls, config: ModelConfig, here: range, stages: Sequence[range]) -> "Fullest":
        own_here, rows_here = _share(config, here)
        shares = [(own_here, rows_here), *(_share(config, stage) for stage in stages)]
        own, rows = max(own for own, _ in shares), max(rows for _, rows in shares)
        return cls(own / own_here, rows / rows_here if rows_here else 1.0, 0.0 if rows_here else rows)

    def own_bytes(self, bytes_here: int, num_tokens: int) -> int:
        return round(bytes_here * self.own + num_tokens * self.row_bytes)

    def shared_bytes(self, buffers_here: Mapping[int, int]) -> dict[int, int]:
        return {key: round(size * self.rows) for key, size in buffers_here.items()}


HERE_ALONE = Fullest()


def _share(config: ModelConfig, layers: range) -> tuple[int, float]:
    """Bytes of some layers: of windows and frontiers, and of the rows that a token adds."""
    ratios = [config.hp.compress_ratios[layer] for layer in layers]
    return sum(_own_bytes(config, ratio) for ratio in ratios), sum(_row_bytes(config, ratio) for ratio in ratios)


@cache
def _own_bytes(config: ModelConfig, ratio: int) -> int:
    """Of a frozen state that has filled its windows."""
    state = LayerState.new(config, ratio)
    kept = [state.window, *(rows for part in state.compressors for rows in (part.values, part.gates))]
    return sum(rows.keep * rows.size_bytes // len(rows.buffer) for rows in kept)


def _row_bytes(config: ModelConfig, ratio: int) -> float:
    if not ratio:
        return 0.0
    return (config.kv_format.row_bytes + (config.key_format.row_bytes if ratio == 4 else 0)) / ratio
