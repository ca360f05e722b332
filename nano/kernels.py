"""The C++ kernels as differentiable operations. Streams are float32, operands of matrix products bfloat16.

`kernels.cpp` is compiled on first use (needs a C++ compiler and ninja) and kept in `build/nano-kernels`. Shapes: N
tokens of B rows of T tokens, S = 4 streams, D hidden, H heads of d dimensions, E experts, F their width.
"""

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.cpp_extension import load

from nano.places import ROOT

SOURCE = Path(__file__).resolve().with_name("kernels.cpp")
BUILD = ROOT / "build" / "nano-kernels"
BLOCK = 128  # queries handled together; equals the attention window
EXPERT_PADDING = 128  # tokens per expert are rounded up to this, so that few shapes of product occur
MATMUL = torch.bfloat16
_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]


@cache
def library():
    """The compiled kernels. Compiled anew only when the source has changed, which takes about a minute."""
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()[:12]
    folder, name = BUILD / key, "nano_kernels"
    built = folder / f"{name}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        load(name, [str(SOURCE)], extra_cflags=_FLAGS, build_directory=str(folder))
    spec = importlib.util.spec_from_file_location(name, built)
    if spec is None or spec.loader is None:
        raise ImportError(f"{built}: expected the compiled kernels; remove {BUILD} to have them compiled anew")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class HyperIn(Function):
    """What a sub-layer reads from the streams, normed, and how it will write back (model.md 2.5)."""

    @staticmethod
    def forward(ctx, streams, function, base, scale, norm):
        """streams (N, S, D) f32 -> input (N, D) bf16, post (N, S), mix (N, S*S)."""
        raw = streams.view(streams.shape[0], -1) @ function.t()
        entered, post, mix, pre, stream_rms, input_rms = library().hyper_in(streams, raw, base, scale, norm)
        ctx.save_for_backward(streams, function, raw, base, scale, norm, pre, post, stream_rms, input_rms)
        return entered, post, mix

    @staticmethod
    def backward(ctx, d_entered, d_post, d_mix):
        streams, function, *rest = ctx.saved_tensors
        grads = (d_entered.contiguous(), d_post.contiguous(), d_mix.contiguous())
        d_streams, d_raw, d_base, d_scale, d_norm = library().hyper_in_backward(streams, *rest, *grads)
        flat = streams.view(streams.shape[0], -1)
        d_streams.view_as(flat).addmm_(d_raw, function)
        return d_streams, d_raw.t() @ flat, d_base, d_scale, d_norm


class HyperOut(Function):
    """Streams after a sub-layer: the old ones mixed, its output added to each by `post`."""

    @staticmethod
    def forward(ctx, streams, output, post, mix):
        ctx.save_for_backward(streams, output, post, mix)
        return library().hyper_out(streams, output, post, mix)

    @staticmethod
    def backward(ctx, d_after):
        return tuple(library().hyper_out_backward(*ctx.saved_tensors, d_after.contiguous()))


class NormRope(Function):
    """RMS norm (with a weight unless it is empty) and rotation of the last 64 dimensions; either can be left out.

    `turn`: 1 rotates by the position, -1 back, 0 not at all. `heads` rows share one position.
    """

    @staticmethod
    def forward(ctx, rows, weight, positions, tables, heads, is_normed, turn):
        ctx.save_for_backward(rows, weight, positions, *tables)
        ctx.options = (heads, is_normed, turn)
        return library().norm_rope(rows, weight, positions, *tables, heads, is_normed, turn)

    @staticmethod
    def backward(ctx, d_rows):
        d_in, d_weight = library().norm_rope_backward(*ctx.saved_tensors, *ctx.options, d_rows.contiguous())
        return d_in, (d_weight if ctx.saved_tensors[1].numel() else None), None, None, None, None, None


class Attention(Function):
    """Attention over the window of 128 raw rows and the compressed rows of the same document, with a sink per head."""

    @staticmethod
    def forward(ctx, query, raw, compressed, sinks, starts, ratio, selected, wants_mass):
        """query (B, T, H, d), raw (B, T, d), compressed (B, C, d) or None -> output (B, T, H, d), mass (B, T, C).

        starts (B, T) int32: first token of each token's document. selected (B, T, C) uint8 or None: the compressed
        rows that may be seen. mass: probability on each compressed row, summed over heads; empty unless wanted.
        """
        batch, length, heads, width = query.shape
        blocks, rows = length // BLOCK, 0 if compressed is None else compressed.shape[1]
        keys = _keys(raw, compressed, blocks)
        queries = query.view(batch * blocks, BLOCK * heads, width)
        probabilities = torch.bmm(queries, keys.transpose(1, 2))
        ratio, scale = max(ratio, 1), width**-0.5
        on_sinks = library().sink_softmax(probabilities, sinks, starts, length, heads, ratio, scale, selected)
        output = torch.bmm(probabilities, keys)
        ctx.save_for_backward(queries, keys, probabilities, on_sinks, starts)
        ctx.options = (batch, length, heads, width, blocks, rows, ratio, scale)
        mass = query.new_empty(0)
        if wants_mass:
            seen = probabilities.view(batch, blocks, BLOCK, heads, 2 * BLOCK + rows)[..., 2 * BLOCK :]
            mass = seen.float().sum(3).view(batch, length, rows)
            ctx.mark_non_differentiable(mass)
        return output.view(batch, length, heads, width), mass

    @staticmethod
    def backward(ctx, d_output, _):
        queries, keys, probabilities, on_sinks, starts = ctx.saved_tensors
        batch, length, heads, width, blocks, rows, ratio, scale = ctx.options
        d_output = d_output.contiguous().view(batch * blocks, BLOCK * heads, width)
        d_scores = torch.bmm(d_output, keys.transpose(1, 2))
        d_sinks = library().sink_softmax_backward(
            probabilities, d_scores, on_sinks, starts, length, heads, ratio, scale
        )
        d_query = torch.bmm(d_scores, keys)
        d_keys = torch.bmm(d_scores.transpose(1, 2), queries)
        d_keys = d_keys.add_(torch.bmm(probabilities.transpose(1, 2), d_output)).view(batch, blocks, -1, width)
        d_raw = d_keys[:, :, BLOCK : 2 * BLOCK].clone()
        d_raw[:, :-1] += d_keys[:, 1:, :BLOCK]
        d_compressed = d_keys[:, :, 2 * BLOCK :].float().sum(1).to(MATMUL) if rows else None
        d_query, d_raw = d_query.view(batch, length, heads, width), d_raw.view(batch, length, width)
        return d_query, d_raw, d_compressed, d_sinks, None, None, None, None


def _keys(raw: Tensor, compressed: Tensor | None, blocks: int) -> Tensor:
    """For each block of queries: the block before, the block itself, and every compressed row of the batch row."""
    batch, _, width = raw.shape
    rows = 0 if compressed is None else compressed.shape[1]
    of_block = raw.view(batch, blocks, BLOCK, width)
    keys = raw.new_empty(batch, blocks, 2 * BLOCK + rows, width)
    keys[:, 0, :BLOCK] = 0
    keys[:, 1:, :BLOCK] = of_block[:, :-1]
    keys[:, :, BLOCK : 2 * BLOCK] = of_block
    if compressed is not None:
        keys[:, :, 2 * BLOCK :] = compressed[:, None]
    return keys.view(batch * blocks, 2 * BLOCK + rows, width)


class Experts(Function):
    """The routed experts: each token through its k experts, weighted and added."""

    @staticmethod
    def forward(ctx, entered, weights, chosen, gate_up, down, limit):
        """entered (N, D) bf16, weights and chosen (N, k), gate_up (E, 2F, D), down (E, D, F) -> (N, D) f32."""
        counts, slots, sources = _places(chosen, len(gate_up))
        grouped = entered.index_select(0, sources)
        both = entered.new_empty(len(sources), gate_up.shape[1])
        for expert, rows in _slices(counts):
            torch.mm(grouped[rows], gate_up[expert].t(), out=both[rows])
        inner = library().swiglu(both, limit)
        outputs = entered.new_empty(len(sources), entered.shape[1])
        for expert, rows in _slices(counts):
            torch.mm(inner[rows], down[expert].t(), out=outputs[rows])
        of_token = outputs.index_select(0, slots).view(*chosen.shape, -1).float()
        ctx.save_for_backward(grouped, both, inner, slots, sources, weights, gate_up, down, of_token)
        ctx.options = (counts, limit)
        return (of_token * weights[..., None]).sum(1)

    @staticmethod
    def backward(ctx, d_output):
        grouped, both, inner, slots, _, weights, gate_up, down, of_token = ctx.saved_tensors
        counts, limit = ctx.options
        d_weights = (of_token * d_output[:, None, :]).sum(-1)
        d_rows = torch.zeros(len(grouped), d_output.shape[1], dtype=MATMUL)
        d_rows[slots] = (d_output[:, None, :] * weights[..., None]).to(MATMUL).view(len(slots), -1)
        d_inner, d_gate_up, d_down = torch.empty_like(inner), torch.zeros_like(gate_up), torch.zeros_like(down)
        for expert, rows in _slices(counts):
            torch.mm(d_rows[rows], down[expert], out=d_inner[rows])
            torch.mm(d_rows[rows].t(), inner[rows], out=d_down[expert])
        d_both = library().swiglu_backward(both, d_inner, limit)
        d_grouped = torch.empty_like(grouped)
        for expert, rows in _slices(counts):
            torch.mm(d_both[rows], gate_up[expert], out=d_grouped[rows])
            torch.mm(d_both[rows].t(), grouped[rows], out=d_gate_up[expert])
        d_entered = d_grouped.index_select(0, slots).view(*weights.shape, -1).float().sum(1).to(MATMUL)
        return d_entered, d_weights, None, d_gate_up, d_down, None


def _places(chosen: Tensor, experts: int) -> tuple[list[int], Tensor, Tensor]:
    """Padded rows per expert; where each (token, choice) lies; which token each row holds (padding holds token 0)."""
    flat = chosen.reshape(-1)
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=experts).tolist()
    padded = [-(-count // EXPERT_PADDING) * EXPERT_PADDING for count in counts]
    slots, sources = torch.empty_like(flat), flat.new_zeros(sum(padded))
    row = taken = 0
    for count, room in zip(counts, padded, strict=True):
        of_expert = order[taken : taken + count]
        sources[row : row + count] = of_expert // chosen.shape[1]
        slots[of_expert] = torch.arange(row, row + count)
        row, taken = row + room, taken + count
    return padded, slots, sources


def _slices(counts: list[int]):
    row = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, slice(row, row + count)
        row += count


class SwiGlu(Function):
    """silu(gate) * up with both clamped; (N, 2F) -> (N, F)."""

    @staticmethod
    def forward(ctx, both, limit):
        ctx.save_for_backward(both)
        ctx.limit = limit
        return library().swiglu(both, limit)

    @staticmethod
    def backward(ctx, d_inner):
        return library().swiglu_backward(ctx.saved_tensors[0], d_inner.contiguous(), ctx.limit), None
