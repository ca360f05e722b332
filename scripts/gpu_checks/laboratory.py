"""The model whose speed is measured: Flash from a seed on the device, and sequences of any depth."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from gpu_checks.depth import deep_snapshot
from gpu_checks.listening import ListeningOps
from gpu_checks.setting import Setting
from whitedwarf.bench.traffic import LayerTraffic, layer_traffic, operations_per_token
from whitedwarf.model.base import Span
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import SequenceState, StateSnapshot
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.seeded import SeededOps, seeded_tensors


@dataclass
class Laboratory:
    """Made on first use, kept for the life of the process."""

    setting: Setting
    quant: str = "q2"
    _snapshots: dict[int, StateSnapshot] = field(default_factory=dict)

    @cached_property
    def config(self) -> ModelConfig:
        return ModelConfig(self.setting.flash)

    @cached_property
    def tensors(self) -> Any:
        return seeded_tensors(self.config.hp, self.quant)

    @cached_property
    def ops(self) -> Any:
        return ListeningOps(SeededOps.around(self.setting.fast))

    @cached_property
    def model(self) -> Transformer:
        return Transformer.load(self.tensors, self.config, self.ops)

    @cached_property
    def traffic(self) -> LayerTraffic:
        return layer_traffic(self.tensors, self.config.hp)

    @cached_property
    def operations_per_token(self) -> int:
        return operations_per_token(self.tensors, self.config.hp)

    @cached_property
    def dice(self) -> np.random.Generator:
        return np.random.default_rng(7)

    def states(self, count: int, depth: int) -> list[SequenceState]:
        """So many sequences of so many tokens."""
        if depth not in self._snapshots:
            self._snapshots.clear()  # one at a time: they are large
            draw = self.setting.draw(f"depth {depth}")
            self._snapshots[depth] = deep_snapshot(self.config, depth, self.setting.fast.memory, draw)
        states = [self.model.new_state() for _ in range(count)]
        for state in states:
            state.restore(self._snapshots[depth])
        return states

    def ids(self, count: int) -> np.ndarray:
        return self.dice.integers(0, self.config.vocab_size, count).astype(np.int32)

    def pass_over(self, states: Sequence[SequenceState], rows: int) -> None:
        """So many tokens each, and the logits of the last."""
        self.model.forward([Span(state, self.ids(rows)) for state in states])

    def step(self, states: Sequence[SequenceState], observe: Any = None) -> None:
        """A token each."""
        ids = self.ids(len(states))
        self.model.forward([Span(state, ids[i : i + 1]) for i, state in enumerate(states)], observe)

    def distinct_experts(self, states: Sequence[SequenceState]) -> list[float]:
        """How many different routed experts a step of these sequences uses, layer by layer."""
        found = [0.0] * self.config.hp.num_layers

        def watch(name: str, layer: int, rows: np.ndarray) -> None:
            if name == "experts_picked":
                found[layer] = float(len(np.unique(rows)))

        self.step(states, watch)
        return found

    def kv_bytes(self, states: Sequence[SequenceState]) -> int:
        """Stored rows that a step of these sequences must read."""
        hp, row, key = self.config.hp, self.config.kv_format.row_bytes, self.config.key_format.row_bytes
        total = 0
        for position in (state.position for state in states):
            for ratio in hp.compress_ratios:
                count = position // ratio if ratio else 0
                is_picked = ratio == 4 and count > hp.index_topk
                seen = min(count, hp.index_topk) if is_picked else count
                total += row * (min(position + 1, hp.sliding_window) + seen) + key * count * is_picked
        return total

    def prefill(self, length: int, chunk: int) -> None:
        """Read a prompt and wait until it is done."""
        state = self.model.new_state()
        for first in range(0, length, chunk):
            count = min(chunk, length - first)
            self.model.forward([Span(state, self.ids(count), "last" if first + count == length else "none")])
        self.setting.synchronise()

    def memory_bytes(self) -> int:
        return torch.cuda.max_memory_allocated() if self.setting.device.type == "cuda" else 0
