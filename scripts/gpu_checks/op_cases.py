"""Part `ops`: every operation of the fast backend against the twins on the same device, at Flash's shapes and odd ones.

Compiles most kernels on the way, for this process and, through Triton's cache on the disk, for the later ones.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gpu_checks.case import Case, CaseError
from gpu_checks.compare import EXACT, ROUNDED, check_all, relative_error, tolerance
from gpu_checks.setting import Draw, Setting
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.config import KEY_KINDS, KV_KINDS, KvCache
from whitedwarf.ops.base import (
    ExpertWeights,
    Groups,
    HyperHeadWeights,
    HyperSettings,
    HyperWeights,
    RouterWeights,
    RowFormat,
)
from whitedwarf.ops.seeded import seeded_weight
from whitedwarf.ops.twins.planes import TorchWeight

PART = "ops"
EPSILON = 1e-6
MATRICES = (GgmlType.Q8_0, GgmlType.F16, GgmlType.IQ2_XXS, GgmlType.Q2_K, GgmlType.MXFP4, GgmlType.Q4_K)
FLOATS = (GgmlType.BF16, GgmlType.F32)
EXPERTS = {
    "q2": (GgmlType.IQ2_XXS, GgmlType.Q2_K),
    "mxfp4": (GgmlType.MXFP4, GgmlType.MXFP4),
    "q4": (GgmlType.Q4_K, GgmlType.Q4_K),
    "q8": (GgmlType.Q8_0, GgmlType.Q8_0),
}
CACHES: tuple[KvCache, ...] = ("packed", "f32", "f16", "packed-f16")
Compared = Callable[[Any], Sequence[Any]]  # a backend -> what it makes


def cases(setting: Setting) -> Iterator[Case]:
    """All of them, those that decode needs first."""
    made = OpCases(setting)
    yield from made.products()
    yield from made.experts()
    yield from made.small()
    yield from made.rows()
    yield from made.routes()


class OpCases:
    """Makes the cases for a setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.hp: Hyperparameters = setting.flash
        self.few, self.many = ((3,), ()) if setting.is_simulated else ((1, 2, 8, 15), (16, 33, 300))
        self.experts_stored = 4 if setting.is_simulated else 16

    def products(self) -> Iterator[Case]:
        hp = self.hp
        wide, low = hp.num_heads * hp.head_dim, hp.num_output_groups * hp.o_lora_rank
        shapes = {"Q_A": (hp.q_lora_rank, hp.hidden_size), "O_B": (hp.hidden_size, low), "odd": (24, 768)}
        for type in (*MATRICES, *FLOATS):
            for name, shape in shapes.items():
                if name == "odd" or type in (GgmlType.Q8_0, GgmlType.F16):
                    for n in self._counts():
                        yield self._linear(f"{name} {type.name}", type, shape, n)
        yield self._linear("head Q8_0", GgmlType.Q8_0, (hp.vocab_size, hp.hidden_size), self.few[0])
        yield self._alone()
        for n in self._counts():
            yield self._linears(n)
            yield self._grouped(n, (low, wide // hp.num_output_groups), (hp.hidden_size, low))
        for n in self._counts()[:1] + self._counts()[-1:]:
            yield self._embed(n)

    def experts(self) -> Iterator[Case]:
        for quant, (gate_up, down) in EXPERTS.items():
            for n in (*self.few, *self.many, *(() if self.setting.is_simulated else (1024,))):
                if quant == "q2" or n in (1, 3, 8, 300):
                    yield self._experts(quant, gate_up, down, n)

    def small(self) -> Iterator[Case]:
        for n in (*self._counts(), 1000):
            if n < 1000 or not self.setting.is_simulated:
                yield from self._hyper(n)

    def rows(self) -> Iterator[Case]:
        for cache in CACHES[:1] if self.setting.is_simulated else CACHES:
            kv = RowFormat(KV_KINDS[cache], self.hp.head_dim, self.hp.rope_dims)
            key = RowFormat(KEY_KINDS[cache], self.hp.index_head_dim, self.hp.rope_dims)
            for n in self._counts()[::2]:
                yield from self._rows(cache, kv, key, n)
            for ratio in (4, 128):
                yield self._compress(cache, kv, ratio)

    def routes(self) -> Iterator[Case]:
        for n in self._counts():
            for kind in ("bias", "table", "plain"):
                yield self._route(kind, n)

    def _counts(self) -> tuple[int, ...]:
        return (*self.few, *self.many)

    def _compared(
        self, name: str, make: Callable[[Draw], Compared], limit: float, format: RowFormat | None = None
    ) -> Case:
        setting = self.setting

        def run() -> dict[str, Any]:
            compared = make(setting.draw(name))
            actual, expected = compared(setting.fast), compared(setting.slow)
            return check_all(actual, expected, limit, format)

        return Case(PART, name, run)

    def _weight(self, name: str, type: GgmlType, *shape: int) -> TorchWeight:
        return seeded_weight(f"{name}.weight", type, shape, self.setting.device)

    def _linear(self, what: str, type: GgmlType, shape: tuple[int, int], n: int) -> Case:
        def make(draw: Draw) -> Compared:
            weight, x = self._weight(what, type, *shape), draw.floats(n, shape[1])
            return lambda ops: [ops.linear(x, weight)]

        return self._compared(f"linear {what} n{n}", make, tolerance(n))

    def _alone(self) -> Case:
        """A row gives the same bits whatever the others are, among few rows and among many."""

        def run() -> dict[str, Any]:
            hp, ops = self.hp, self.setting.fast
            weight = self._weight("alone", GgmlType.Q8_0, hp.q_lora_rank, hp.hidden_size)
            x = self.setting.draw("alone").floats(40, hp.hidden_size)
            sizes = (8, 1) if self.setting.is_simulated else (8, 1, 40, 17)
            results = {n: ops.linear(x[-n:].contiguous(), weight)[-1] for n in sizes}
            pairs = [(one, other) for one, other in zip(sizes[::2], sizes[1::2], strict=True)]
            if unequal := [pair for pair in pairs if not torch.equal(results[pair[0]], results[pair[1]])]:
                raise CaseError(f"a row's result is another among {unequal} rows")
            return {}

        return Case(PART, "a row does not depend on the others", run)

    def _linears(self, n: int) -> Case:
        hp = self.hp
        widths = (hp.num_heads * hp.head_dim, hp.index_heads * hp.index_head_dim)

        def make(draw: Draw) -> Compared:
            weights = [self._weight("up", GgmlType.Q8_0, width, hp.q_lora_rank) for width in widths]
            weights.append(self._weight("proj", GgmlType.F16, 64, hp.q_lora_rank))
            x, norm = draw.floats(n, hp.q_lora_rank), draw.floats(hp.q_lora_rank)
            return lambda ops: [*ops.linears(x, weights, norm, EPSILON), *ops.linears(x, weights[1:])]

        return self._compared(f"linears n{n}", make, tolerance(n))

    def _grouped(self, n: int, first_shape: tuple[int, int], second_shape: tuple[int, int]) -> Case:
        groups = self.hp.num_output_groups

        def make(draw: Draw) -> Compared:
            first = self._weight("first", GgmlType.Q8_0, *first_shape)
            second = self._weight("second", GgmlType.Q8_0, *second_shape)
            x = draw.floats(n, groups * first_shape[1])
            return lambda ops: [ops.grouped_linear(x, first, groups), ops.grouped_then_linear(x, first, groups, second)]

        return self._compared(f"grouped n{n}", make, 2 * tolerance(n))

    def _embed(self, n: int) -> Case:
        def make(draw: Draw) -> Compared:
            types = (GgmlType.F16, GgmlType.Q8_0, GgmlType.BF16)
            tables = [self._weight("token_embd", type, 500, self.hp.hidden_size) for type in types]
            ids = draw.integers(0, 500, n)
            return lambda ops: [ops.spread(ops.embed(table, ids), self.hp.hc_streams) for table in tables]

        return self._compared(f"embed n{n}", make, EXACT)

    def _experts(self, quant: str, gate_up: GgmlType, down: GgmlType, n: int) -> Case:
        hp, stored = self.hp, self.experts_stored
        limit = hp.swiglu_limits[0]

        def make(draw: Draw) -> Compared:
            wide, tall = (hp.expert_size, hp.hidden_size), (hp.hidden_size, hp.expert_size)
            gate, up = (self._weight(f"ffn_{role}_exps", gate_up, stored, *wide) for role in ("gate", "up"))
            routed = ExpertWeights(gate, up, self._weight("ffn_down_exps", down, stored, *tall), limit)
            gate, up = (self._weight(f"ffn_{role}_shexp", GgmlType.Q8_0, *wide) for role in ("gate", "up"))
            shared = ExpertWeights(gate, up, self._weight("ffn_down_shexp", GgmlType.Q8_0, *tall), limit)
            picked = draw.distinct(n, hp.num_experts_used, stored)
            shares = draw.floats(n, hp.num_experts_used).abs()
            x = draw.floats(n, hp.hidden_size)
            return lambda ops: [
                ops.experts(x, picked, shares, routed, shared),
                ops.experts(x, picked, shares, routed),
            ]

        return self._compared(f"experts {quant} n{n}", make, 2 * tolerance(n))

    def _hyper(self, n: int) -> Iterator[Case]:
        hp = self.hp
        streams_count, dims = hp.hc_streams, hp.hidden_size
        numbers = HyperSettings(hp.rms_epsilon, hp.hc_epsilon, hp.hc_iterations)

        def make(draw: Draw) -> Compared:
            count = streams_count * (streams_count + 2)
            weights = [
                HyperWeights(
                    self._weight("hc_fn", type, count, streams_count * dims),
                    0.3 * draw.floats(count),
                    draw.floats(3).abs(),
                    draw.floats(dims),
                )
                for type in (GgmlType.F16, GgmlType.F32)
            ]
            streams, output = draw.floats(n, streams_count, dims), draw.floats(n, dims)

            def compared(ops: Any) -> Sequence[Any]:
                x, mix = ops.hyper_in(streams.clone(), weights[0], numbers)
                other, _ = ops.hyper_in(streams.clone(), weights[1], numbers)
                out = ops.hyper_out(streams.clone(), output, mix)
                both = ops.hyper_out_in(streams.clone(), output, mix, weights[1], numbers)
                return [x, mix.post, mix.combination, other, out, *both[:2], both[2].post, both[2].combination]

            return compared

        def make_head(draw: Draw) -> Compared:
            mix = self._weight("output_hc_fn", GgmlType.F16, streams_count, streams_count * dims)
            rest = draw.floats(streams_count), draw.floats(1).abs(), draw.floats(dims)
            streams = draw.floats(n, streams_count, dims)
            return lambda ops: [ops.hyper_head(streams, HyperHeadWeights(mix, *rest), numbers)]

        yield self._compared(f"hyper n{n}", make, 3 * EXACT)
        yield self._compared(f"hyper_head n{n}", make_head, 3 * EXACT)

    def _rows(self, cache: str, kv: RowFormat, key: RowFormat, n: int) -> Iterator[Case]:
        hp = self.hp

        def make_query(draw: Draw) -> Compared:
            x, turns = draw.floats(n, hp.num_heads * hp.head_dim), draw.turns(n, hp.rope_dims)
            return lambda ops: [ops.query(x, hp.num_heads, turns, EPSILON)]

        def make_kv(draw: Draw) -> Compared:
            x, norm, turns = draw.floats(n, kv.dims), draw.floats(kv.dims), draw.turns(n, kv.rope_dims)
            return lambda ops: [ops.kv_rows(x, norm, turns, EPSILON, kv)]

        def make_key(draw: Draw) -> Compared:
            x, turns = draw.floats(n, hp.index_heads * key.dims), draw.turns(n, key.rope_dims)
            return lambda ops: [ops.index_query(x, hp.index_heads, turns, key)]

        if cache == "packed":
            yield self._compared(f"query n{n}", make_query, EXACT)
        yield self._compared(f"kv_rows {cache} n{n}", make_kv, EXACT, kv)
        yield self._compared(f"index_query {cache} n{n}", make_key, ROUNDED if cache.startswith("packed") else EXACT)

    def _compress(self, cache: str, format: RowFormat, ratio: int) -> Case:
        def make(draw: Draw) -> Compared:
            groups = Groups(2, 5, ratio)
            width = format.dims * (2 if ratio == 4 else 1)
            values, gates = (draw.floats(4 * ratio, width) for _ in range(2))
            ape, norm = draw.floats(ratio, width), draw.floats(format.dims)
            own = ape, norm, draw.turns(3, format.rope_dims), EPSILON, format
            return lambda ops: [ops.compress(values, gates, ratio, groups, *own)]

        return self._compared(f"compress {cache} ratio {ratio}", make, EXACT, format)

    def _route(self, kind: str, n: int) -> Case:
        hp = self.hp

        def run() -> dict[str, Any]:
            draw = self.setting.draw(f"route {kind} n{n}")
            gate = self._weight("ffn_gate_inp", GgmlType.F16, hp.num_experts, hp.hidden_size)
            bias = 0.02 * draw.floats(hp.num_experts) if kind == "bias" else None
            table = draw.distinct(1000, hp.num_experts_used, hp.num_experts) if kind == "table" else None
            router = RouterWeights(gate, bias, table, hp.num_experts_used, hp.expert_weights_scale, hp.norm_topk)
            x, ids = draw.floats(n, hp.hidden_size), draw.integers(0, 1000, n)
            (picked, shares), (expected, expected_shares) = (
                ops.route(x, router, ids) for ops in (self.setting.fast, self.setting.slow)
            )
            is_same = (picked == expected).all(dim=1)
            share = float(is_same.double().mean())
            if share < 1 - max(2, n // 50) / n and n > 1:
                raise CaseError(f"{share:.1%} of the rows pick the same experts", same=share)
            error = relative_error(shares[is_same], expected_shares[is_same])
            if not error <= 10 * tolerance(n):
                raise CaseError(f"relative error {error:.2e} of the weights", error=error)
            return {"error": error, "same": share}

        return Case(PART, f"route {kind} n{n}", run)
