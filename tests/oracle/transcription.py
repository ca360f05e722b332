"""The forward pass of spec/model.md section 2 written down word for word in float64, one token at a time.

For: an independent reference. It was written from the spec alone and shares no line with `whitedwarf.model` or
`whitedwarf.ops`; where the two disagree, one of them has misread the spec.
Promises: one function per paragraph of the spec, arithmetic in float64, state in plain Python lists, ties to the lowest
index. `Model.rounding` switches the activation rounding of 2.7 on.
Does not know: files (see `weights_source`), chunks, batches, speed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

PLAIN_WINDOW, OVERLAPPING = 0, 4  # the two ratios that the spec treats specially; any other pools without overlap
WEIGHT_SUM_FLOOR = 6.103515625e-5


@dataclass(frozen=True, slots=True)
class Numbers:
    """The hyper-parameters of section 1 that the arithmetic needs."""

    layers: int
    hidden: int
    heads: int
    head_dim: int
    rope_dim: int
    window: int
    ratios: tuple[int, ...]
    hash_layers: int
    experts_used: int
    expert_scale: float
    normalise_expert_weights: bool
    clamp_routed: tuple[float, ...]
    clamp_shared: tuple[float, ...]
    output_groups: int
    index_heads: int
    index_head_dim: int
    index_topk: int
    streams: int
    sinkhorn_iterations: int
    hyper_epsilon: float
    norm_epsilon: float
    rope_base: float
    compress_rope_base: float
    yarn_factor: float  # 1.0: no scaling
    yarn_original_context: int
    yarn_beta_fast: float
    yarn_beta_slow: float


@dataclass(frozen=True, slots=True)
class Layer:
    """What tells one block from another."""

    prefix: str
    ratio: int
    is_hash_routed: bool
    clamp_routed: float
    clamp_shared: float


@dataclass(frozen=True, slots=True)
class Model:
    """Weights under the names of 4.3, as (out, in) arrays, and how to compute with them."""

    numbers: Numbers
    weights: Mapping[str, Array]
    rounding: bool = False  # 2.7
    rotary_dtype: type[np.floating[Any]] | None = None  # what stored rows keep their rotary dims in; None: unrounded
    angle_dtype: type[np.floating[Any]] = np.float32  # of frequency, angle, cosine and sine

    def layer(self, index: int) -> Layer:
        n = self.numbers
        return Layer(
            f"blk.{index}.", n.ratios[index], index < n.hash_layers, n.clamp_routed[index], n.clamp_shared[index]
        )


@dataclass(slots=True)
class Frontier:
    """(value, gate) of every token of the open window and of the one before it."""

    previous: list[tuple[Array, Array]] = field(default_factory=list)
    current: list[tuple[Array, Array]] = field(default_factory=list)


@dataclass(slots=True)
class LayerState:
    """What 2.10 says a layer keeps."""

    raw: list[Array] = field(default_factory=list)
    compressed: list[Array] = field(default_factory=list)
    frontier: Frontier = field(default_factory=Frontier)
    index_keys: list[Array] = field(default_factory=list)
    index_frontier: Frontier = field(default_factory=Frontier)


@dataclass(slots=True)
class Trace:
    """What was chosen and what flowed, per layer index, one entry per token."""

    experts: dict[str, list[Ids]] = field(default_factory=dict)
    blocks: dict[str, list[Ids]] = field(default_factory=dict)
    streams: list[list[Array]] = field(default_factory=list)  # per token: entering every layer, then leaving the last
    final: list[Array] = field(default_factory=list)  # per token: after the final norm
    router_margin: float = np.inf  # smallest gap in s + bias at the edge of the choice, over all biased routers
    index_margin: float = np.inf  # smallest gap at the top-k edge over the largest score, over all choices


@dataclass(slots=True)
class State:
    layers: list[LayerState]
    position: int = 0
    trace: Trace = field(default_factory=Trace)


def new_state(model: Model) -> State:
    return State([LayerState() for _ in range(model.numbers.layers)])


# ---- small parts ---------------------------------------------------------------------------------


def unit_rms(x: Array, epsilon: float) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softplus(x: Array) -> Array:
    return np.where(x > 20, x, np.where(x < -20, np.exp(np.minimum(x, 0)), np.log1p(np.exp(np.minimum(x, 20)))))


def best(scores: Array, count: int) -> tuple[Ids, float]:
    """The `count` best indices (ties to the lowest index), and the gap between the last chosen and the first left."""
    order = np.argsort(-scores, kind="stable")
    gap = scores[order[count - 1]] - scores[order[count]] if count < len(scores) else np.inf
    return order[:count], float(gap)


# ---- rotary position (1.2, 1.5, 2.3) -------------------------------------------------------------


def yarn_dim(n: Numbers, rotations: float) -> float:
    base, context = n.compress_rope_base, n.yarn_original_context
    return float(n.rope_dim * np.log(context / (2 * np.pi * rotations)) / (2 * np.log(base)))


def yarn_bounds(n: Numbers) -> tuple[int, int]:
    """Between which pair indices the frequency goes over from original to interpolated."""
    low, high = int(np.floor(yarn_dim(n, n.yarn_beta_fast))), int(np.ceil(yarn_dim(n, n.yarn_beta_slow)))
    return max(low, 0), min(high, n.rope_dim - 1)


@functools.cache
def frequencies(n: Numbers, ratio: int, dtype: type[np.floating[Any]]) -> Array:
    """(rope_dim / 2,): computed in float64, rounded once to `dtype`."""
    pair = np.arange(n.rope_dim // 2, dtype=np.float64)
    if ratio == PLAIN_WINDOW:
        return (n.rope_base ** (-2 * pair / n.rope_dim)).astype(dtype)
    original = n.compress_rope_base ** (-2 * pair / n.rope_dim)
    if n.yarn_factor == 1.0:
        return original.astype(dtype)
    low, high = yarn_bounds(n)
    ramp = np.clip((pair - low) / max(high - low, 0.001), 0, 1)
    return (original * (1 - ramp) + original / n.yarn_factor * ramp).astype(dtype)


def rotate(model: Model, ratio: int, x: Array, position: int, direction: int = 1) -> Array:
    """Turn adjacent pairs of the last rope_dim entries of every row of x; direction -1 turns them back."""
    dtype = model.angle_dtype
    angle = (dtype(position) * frequencies(model.numbers, ratio, dtype)).astype(np.float64)
    cos, sin = (part.astype(dtype).astype(np.float64) for part in (np.cos(angle), np.sin(angle)))
    out = x.copy()
    tail = x[..., -model.numbers.rope_dim :]
    even, odd = tail[..., 0::2], tail[..., 1::2]
    out[..., -model.numbers.rope_dim :: 2] = even * cos - direction * odd * sin
    out[..., -model.numbers.rope_dim + 1 :: 2] = direction * even * sin + odd * cos
    return out


# ---- rounding of activations (2.7) ---------------------------------------------------------------


def power_of_two_scale(amax: Array, largest: float) -> Array:
    """2^ceil(log2(amax / largest)), the exponent read off the bits of a float32 product as the official kernel does."""
    quotient = amax.astype(np.float32) * np.float32(1.0 / largest)
    bits = quotient.view(np.int32)
    exponent = ((bits >> 23) & 0xFF) - 127 + ((bits & 0x7FFFFF) != 0)
    return np.ldexp(1.0, exponent)


def round_e4m3(x: Array) -> Array:
    """Nearest e4m3fn value, ties to the even code; |x| must not exceed 448."""
    exponent = np.maximum(np.frexp(x)[1] - 1, -6)  # below 2^-6 the spacing stays 2^-9
    step = np.ldexp(1.0, exponent - 3)
    return np.rint(x / step) * step


def round_e2m1(x: Array) -> Array:
    """Nearest of 0, .5, 1, 1.5, 2, 3, 4, 6 with sign, ties to the even code; |x| must not exceed 6."""
    exponent = np.maximum(np.frexp(x)[1] - 1, 0)
    step = np.ldexp(1.0, exponent - 1)
    return np.rint(x / step) * step


def in_blocks(x: Array, size: int) -> list[Array]:
    return [x[..., start : start + size] for start in range(0, x.shape[-1], size)]


def fp8_block(x: Array) -> Array:
    amax = np.maximum(np.abs(x).max(axis=-1, keepdims=True), 1e-4)
    scale = power_of_two_scale(amax, 448.0)
    return round_e4m3(np.clip(x / scale, -448, 448)) * scale


def fp4_block(x: Array) -> Array:
    amax = np.maximum(np.abs(x).max(axis=-1, keepdims=True), 6 * 2.0**-126)
    scale = power_of_two_scale(amax, 6.0)
    return round_e2m1(np.clip(x / scale, -6, 6)) * scale


def fp8_64(x: Array) -> Array:
    return np.concatenate([fp8_block(block) for block in in_blocks(x, 64)], axis=-1)


def fp4_32(x: Array) -> Array:
    return np.concatenate([fp4_block(block) for block in in_blocks(x, 32)], axis=-1)


def hadamard(x: Array) -> Array:
    """Normalised Walsh-Hadamard transform of the last axis, Sylvester order."""
    width = x.shape[-1]
    stride = 1
    while stride < width:
        pairs = x.reshape(*x.shape[:-1], width // (2 * stride), 2, stride)
        upper, lower = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([upper + lower, upper - lower], axis=-2).reshape(x.shape)
        stride *= 2
    return x * width**-0.5


def stored_row(model: Model, row: Array) -> Array:
    """A raw or compressed attention row as the cache gives it back."""
    plain, rotary = row[: -model.numbers.rope_dim], row[-model.numbers.rope_dim :]
    if model.rounding:
        plain = fp8_64(plain.astype(np.float32).astype(np.float64))
    if model.rotary_dtype is not None:
        rotary = rotary.astype(np.float32).astype(model.rotary_dtype).astype(np.float64)
    return np.concatenate([plain, rotary])


def index_vector(model: Model, x: Array) -> Array:
    """Indexer queries and keys as they are compared; without rounding the Hadamard transform changes no score."""
    return fp4_32(hadamard(x).astype(np.float32).astype(np.float64)) if model.rounding else x


# ---- hyper-connections (2.2) ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mix:
    before: Array  # (streams,) how much of each stream the sub-layer reads
    after: Array  # (streams,) how much of its output each stream gets
    across: Array  # (source, destination)


def sinkhorn(scores: Array, iterations: int, epsilon: float) -> Array:
    """(source, destination) scores to a nearly doubly stochastic matrix."""
    c = softmax(scores, axis=1) + epsilon
    c = c / (c.sum(axis=0, keepdims=True) + epsilon)
    for _ in range(iterations - 1):
        c = c / (c.sum(axis=1, keepdims=True) + epsilon)
        c = c / (c.sum(axis=0, keepdims=True) + epsilon)
    return c


def mixing_numbers(model: Model, fn: Array, streams: Array) -> Array:
    return fn @ unit_rms(streams.reshape(-1), model.numbers.norm_epsilon)


def hyper_mix(model: Model, name: str, streams: Array) -> Mix:
    """`name` is the prefix of fn, base and scale, such as blk.0.hc_attn."""
    n, w = model.numbers, model.weights
    s = n.streams
    m = mixing_numbers(model, w[f"{name}_fn.weight"], streams)
    scale, base = w[f"{name}_scale.weight"], w[f"{name}_base.weight"]
    before = sigmoid(m[:s] * scale[0] + base[:s]) + n.hyper_epsilon
    after = 2 * sigmoid(m[s : 2 * s] * scale[1] + base[s : 2 * s])
    scores = (m[2 * s :] * scale[2] + base[2 * s :]).reshape(s, s)
    return Mix(before, after, sinkhorn(scores, n.sinkhorn_iterations, n.hyper_epsilon))


def expand(mix: Mix, streams: Array, output: Array) -> Array:
    return mix.after[:, None] * output + mix.across.T @ streams


# ---- attention (2.3) -----------------------------------------------------------------------------


def normed(model: Model, x: Array, name: str) -> Array:
    return unit_rms(x, model.numbers.norm_epsilon) * model.weights[name]


def low_rank_query(model: Model, layer: Layer, a: Array) -> Array:
    return normed(model, model.weights[f"{layer.prefix}attn_q_a.weight"] @ a, f"{layer.prefix}attn_q_a_norm.weight")


def query(model: Model, layer: Layer, qr: Array, position: int) -> Array:
    """(heads, head_dim)"""
    n = model.numbers
    q = (model.weights[f"{layer.prefix}attn_q_b.weight"] @ qr).reshape(n.heads, n.head_dim)
    return rotate(model, layer.ratio, unit_rms(q, n.norm_epsilon), position)


def raw_row(model: Model, layer: Layer, a: Array, position: int) -> Array:
    kv = normed(model, model.weights[f"{layer.prefix}attn_kv.weight"] @ a, f"{layer.prefix}attn_kv_a_norm.weight")
    return stored_row(model, rotate(model, layer.ratio, kv, position))


def attend(model: Model, layer: Layer, q: Array, rows: Sequence[Array]) -> Array:
    """(heads, head_dim): every row is key and value; the sink counts in the denominator only."""
    keys = np.array(rows)
    scores = q @ keys.T / np.sqrt(model.numbers.head_dim)
    sink = model.weights[f"{layer.prefix}attn_sinks.weight"]
    top = np.maximum(scores.max(axis=1), sink)
    e = np.exp(scores - top[:, None])
    return (e / (np.exp(sink - top) + e.sum(axis=1))[:, None]) @ keys


def grouped_output(model: Model, layer: Layer, heads: Array) -> Array:
    n, w = model.numbers, model.weights
    per_group = heads.reshape(n.output_groups, -1)
    first = w[f"{layer.prefix}attn_output_a.weight"].reshape(n.output_groups, -1, per_group.shape[1])
    low = np.concatenate([first[g] @ per_group[g] for g in range(n.output_groups)])
    return w[f"{layer.prefix}attn_output_b.weight"] @ low


def visible_rows(model: Model, layer: Layer, state: LayerState, picks: Ids | None) -> list[Array]:
    picked = state.compressed if picks is None else [state.compressed[c] for c in picks]
    return state.raw[-model.numbers.window :] + picked


def attention(model: Model, layer: Layer, state: LayerState, trace: Trace, a: Array, position: int) -> Array:
    qr = low_rank_query(model, layer, a)
    q = query(model, layer, qr, position)
    state.raw.append(raw_row(model, layer, a, position))
    picks: Ids | None = None
    if layer.ratio != PLAIN_WINDOW:
        append_compressed(model, layer, state, a, position)
    if layer.ratio == OVERLAPPING:
        append_index_key(model, layer, state, a, position)
        picks = pick_blocks(model, layer, state, trace, a, qr, position)
    heads = attend(model, layer, q, visible_rows(model, layer, state, picks))
    return grouped_output(model, layer, rotate(model, layer.ratio, heads, position, direction=-1))


# ---- compressors (2.4) ---------------------------------------------------------------------------


def pool(frontier: Frontier, ratio: int, width: int) -> Array:
    """One row out of a full window; with overlap the window before it takes part with its first halves."""
    if ratio == OVERLAPPING:
        empty = [(np.zeros(2 * width), np.full(2 * width, -np.inf))] * ratio
        earlier = [(v[:width], g[:width]) for v, g in frontier.previous or empty]
        parts = earlier + [(v[width:], g[width:]) for v, g in frontier.current]
    else:
        parts = frontier.current
    values, gates = np.array([v for v, _ in parts]), np.array([g for _, g in parts])
    return (softmax(gates, axis=0) * values).sum(axis=0)


def compress(model: Model, layer: Layer, name: str, frontier: Frontier, a: Array, position: int) -> Array | None:
    """Take one token in; give the rotated row when its window is complete. `name` is the compressor's prefix."""
    w, ratio = model.weights, layer.ratio
    value = w[f"{name}_kv.weight"] @ a
    gate = w[f"{name}_gate.weight"] @ a + w[f"{name}_ape.weight"][position % ratio]
    frontier.current.append((value, gate))
    if (position + 1) % ratio != 0:
        return None
    row = pool(frontier, ratio, width=len(w[f"{name}_norm.weight"]))
    frontier.previous, frontier.current = frontier.current, []
    return rotate(model, ratio, normed(model, row, f"{name}_norm.weight"), position + 1 - ratio)


def append_compressed(model: Model, layer: Layer, state: LayerState, a: Array, position: int) -> None:
    row = compress(model, layer, f"{layer.prefix}attn_compressor", state.frontier, a, position)
    if row is not None:
        state.compressed.append(stored_row(model, row))


# ---- indexer (2.5) -------------------------------------------------------------------------------


def append_index_key(model: Model, layer: Layer, state: LayerState, a: Array, position: int) -> None:
    key = compress(model, layer, f"{layer.prefix}indexer_compressor", state.index_frontier, a, position)
    if key is not None:
        state.index_keys.append(index_vector(model, key))


def index_scores(model: Model, layer: Layer, state: LayerState, a: Array, qr: Array, position: int) -> Array:
    n, w = model.numbers, model.weights
    iq = (w[f"{layer.prefix}indexer.attn_q_b.weight"] @ qr).reshape(n.index_heads, n.index_head_dim)
    iq = index_vector(model, rotate(model, layer.ratio, iq, position))
    head_weights = (w[f"{layer.prefix}indexer.proj.weight"] @ a) * n.index_heads**-0.5 * n.index_head_dim**-0.5
    return head_weights @ np.maximum(0, iq @ np.array(state.index_keys).T)


def pick_blocks(model: Model, layer: Layer, state: LayerState, trace: Trace, a: Array, qr: Array, position: int) -> Ids:
    visible = len(state.index_keys)
    picks = np.arange(visible)
    if visible > model.numbers.index_topk:
        scores = index_scores(model, layer, state, a, qr, position)
        picks, gap = best(scores, model.numbers.index_topk)
        picks = np.sort(picks)
        trace.index_margin = min(trace.index_margin, gap / float(np.abs(scores).max()))
    trace.blocks.setdefault(layer.prefix, []).append(picks)
    return picks


# ---- mixture of experts (2.6) --------------------------------------------------------------------


def pick_experts(model: Model, layer: Layer, trace: Trace, affinities: Array, token: int) -> Ids:
    if layer.is_hash_routed:
        picks = model.weights[f"{layer.prefix}ffn_gate_tid2eid.weight"][token].astype(np.int64)
    else:
        biased = affinities + model.weights[f"{layer.prefix}exp_probs_b.bias"]
        picks, gap = best(biased, model.numbers.experts_used)
        trace.router_margin = min(trace.router_margin, gap)
    trace.experts.setdefault(layer.prefix, []).append(picks)
    return picks


def swiglu(gate: Array, up: Array, limit: float) -> Array:
    return silu(np.minimum(gate, limit)) * np.clip(up, -limit, limit)


def mixture(model: Model, layer: Layer, trace: Trace, b: Array, token: int) -> Array:
    n, w, prefix = model.numbers, model.weights, layer.prefix
    affinities = np.sqrt(softplus(w[f"{prefix}ffn_gate_inp.weight"] @ b))
    picks = pick_experts(model, layer, trace, affinities, token)
    shares = affinities[picks]
    if n.normalise_expert_weights:
        shares = shares / max(shares.sum(), WEIGHT_SUM_FLOOR)
    shares = shares * n.expert_scale
    gate_exps, up_exps, down_exps = (w[f"{prefix}ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
    gate, up, down = (w[f"{prefix}ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
    out = down @ swiglu(gate @ b, up @ b, layer.clamp_shared)
    for expert, share in zip(picks, shares, strict=True):
        out = out + down_exps[expert] @ (swiglu(gate_exps[expert] @ b, up_exps[expert] @ b, layer.clamp_routed) * share)
    return out


# ---- the whole (2.1, 2.2, 2.8) -------------------------------------------------------------------


def embedding(model: Model, token: int) -> Array:
    return model.weights["token_embd.weight"][token]


def block(
    model: Model, layer: Layer, state: LayerState, trace: Trace, streams: Array, token: int, position: int
) -> Array:
    """(streams, hidden) in, (streams, hidden) out"""
    mix = hyper_mix(model, f"{layer.prefix}hc_attn", streams)
    a = normed(model, mix.before @ streams, f"{layer.prefix}attn_norm.weight")
    streams = expand(mix, streams, attention(model, layer, state, trace, a, position))
    mix = hyper_mix(model, f"{layer.prefix}hc_ffn", streams)
    b = normed(model, mix.before @ streams, f"{layer.prefix}ffn_norm.weight")
    return expand(mix, streams, mixture(model, layer, trace, b, token))


def head_input(model: Model, streams: Array, hyper: str, norm: str) -> Array:
    """The four streams made one and normed; `hyper` is the prefix of fn, base and scale of the head's mixing."""
    m = mixing_numbers(model, model.weights[f"{hyper}_fn.weight"], streams)
    scale, base = model.weights[f"{hyper}_scale.weight"][0], model.weights[f"{hyper}_base.weight"]
    z = (sigmoid(m * scale + base) + model.numbers.hyper_epsilon) @ streams
    return normed(model, z, norm)


def step(model: Model, state: State, token: int) -> Array:
    """Logits (vocab,) after one more token."""
    streams = np.tile(embedding(model, token), (model.numbers.streams, 1))
    entering = [streams]
    for index, layer_state in enumerate(state.layers):
        layer = model.layer(index)
        streams = block(model, layer, layer_state, state.trace, streams, token, state.position)
        entering.append(streams)
    final = head_input(model, streams, "output_hc", "output_norm.weight")
    state.trace.streams.append(entering)
    state.trace.final.append(final)
    state.position += 1
    return np.asarray(model.weights["output.weight"] @ final)


@dataclass(frozen=True, slots=True)
class Run:
    logits: Array  # (tokens, vocab)
    state: State

    def experts(self, layer: int) -> Ids:
        """(tokens, used), in the order of choice"""
        return np.array(self.state.trace.experts[f"blk.{layer}."])

    def blocks(self, layer: int) -> list[Ids]:
        """Per token the rows that the ratio-4 layer attended to, ascending"""
        return self.state.trace.blocks[f"blk.{layer}."]

    def streams(self) -> Array:
        """(layers + 1, tokens, streams, hidden)"""
        return np.array(self.state.trace.streams).swapaxes(0, 1)

    def choice_margins(self) -> tuple[float, float]:
        return self.state.trace.router_margin, self.state.trace.index_margin


def forward(model: Model, ids: Sequence[int] | npt.NDArray[Any]) -> Run:
    state = new_state(model)
    return Run(np.array([step(model, state, int(token)) for token in ids]), state)


def greedy(model: Model, ids: Sequence[int] | npt.NDArray[Any], count: int) -> list[int]:
    """The `count` tokens that follow `ids` when the likeliest is always taken (ties to the lowest id)."""
    run = forward(model, ids)
    logits, chosen = run.logits[-1], list[int]()
    while len(chosen) < count:
        chosen.append(int(np.argmax(logits)))
        logits = step(model, run.state, chosen[-1])
    return chosen


def with_rounding(model: Model, rotary_dtype: type[np.floating[Any]] | None) -> Model:
    """The same weights with the arithmetic of the packed cache."""
    return replace(model, rounding=True, rotary_dtype=rotary_dtype)
