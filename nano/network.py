"""The network in torch: DeepSeek V4's architecture at nano's size, for training on a CPU.

Promises the mathematics of model.md 2 without the simulation of FP8 and FP4 rows: matrix products in bfloat16, streams
and everything that steers them in float32. Rows of many documents are packed; no token sees another document. Knows
nothing of files: `checkpoint.py` reads and writes parameters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from nano.kernels import MATMUL, Attention, Experts, HyperIn, HyperOut, NormRope, SwiGlu
from nano.parameters import MTP, Parameters
from nano.shape import Shape

EPSILON = 1e-6


@dataclass(frozen=True)
class Rows:
    """A batch of packed rows; T is a multiple of 128."""

    ids: Tensor  # (B, T) int64
    starts: Tensor  # (B, T) int32: first token of each token's document

    @property
    def count(self) -> int:
        return self.ids.numel()


@dataclass(frozen=True)
class Output:
    """Logits where they were asked for, and the indexer's loss when it was."""

    logits: Tensor  # (len(places), V) f32
    index_loss: Tensor  # () f32
    streams: Tensor  # (N, S, D) f32 after the last block, before the head


class Network:
    """Forward passes over one set of parameters."""

    def __init__(self, shape: Shape, parameters: Parameters, longest_row: int):
        self.shape, self.parameters = shape, parameters
        self.plain_rope = rope_tables(longest_row, shape.rope_theta, None)
        self.compressed_rope = rope_tables(longest_row, shape.compress_rope_theta, shape.rope_factor)
        self.expert_load: dict[str, Tensor] = {}  # of the last pass: tokens per expert of each biased router

    def forward(self, rows: Rows, places: Tensor, *, learns_index: bool = False, is_sparse: bool = False) -> Output:
        """places: flat token numbers whose next token is wanted. is_sparse: see only the rows the indexer picks."""
        shape, read = self.shape, self.parameters.read
        embedded = functional.embedding(rows.ids.view(-1), read("embed.weight"))
        streams = embedded[:, None, :].expand(rows.count, shape.streams, shape.hidden).contiguous()
        index_losses: list[Tensor] = []
        for layer in range(shape.layers):
            streams, loss = self._block(f"layers.{layer}.", layer, streams, rows, learns_index, is_sparse)
            index_losses += [] if loss is None else [loss]
        index_loss = torch.stack(index_losses).mean() if index_losses else torch.zeros(())
        return Output(self._head("", streams.index_select(0, places)), index_loss, streams)

    def draft(self, rows: Rows, streams: Tensor, places: Tensor) -> Tensor:
        """The MTP block (model.md 2.9): from streams at p and the token at p + 1, logits (len(places), V) for p + 2."""
        shape, read = self.shape, self.parameters.read
        following = torch.cat([rows.ids[:, 1:], rows.ids[:, -1:]], 1).view(-1)
        token = _rms_norm(functional.embedding(following, read("embed.weight").detach()), read(MTP + "enorm.weight"))
        token = functional.linear(token.to(MATMUL), read(MTP + "e_proj.weight").to(MATMUL))
        state = _rms_norm(streams.detach(), read(MTP + "hnorm.weight")).to(MATMUL)
        state = functional.linear(state, read(MTP + "h_proj.weight").to(MATMUL))
        joined = (token[:, None, :].float() + state.float()).contiguous()
        after, _ = self._block(MTP, shape.layers, joined, rows, False, False)
        return self._head(MTP, after.index_select(0, places), trains_shared=False)

    def _block(
        self, prefix: str, layer: int, streams: Tensor, rows: Rows, learns_index: bool, is_sparse: bool
    ) -> tuple[Tensor, Tensor | None]:
        entered, post, mix = self._enter(prefix, "attn", streams)
        output, index_loss = self._attend(prefix, layer, entered, rows, learns_index, is_sparse)
        streams = HyperOut.apply(streams, output, post, mix)
        entered, post, mix = self._enter(prefix, "ffn", streams)
        output = self._feed_forward(prefix, layer, entered, rows)
        return HyperOut.apply(streams, output, post, mix), index_loss

    def _enter(self, prefix: str, part: str, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        read = self.parameters.read
        hyper = (read(f"{prefix}hc_{part}_{name}") for name in ("fn", "base", "scale"))
        return HyperIn.apply(streams, *hyper, read(f"{prefix}{part}_norm.weight"))

    def _attend(
        self, prefix: str, layer: int, entered: Tensor, rows: Rows, learns_index: bool, is_sparse: bool
    ) -> tuple[Tensor, Tensor | None]:
        shape, ratio, at = self.shape, self.shape.ratio(layer), prefix + "attn."
        batch, length = rows.ids.shape
        tables = self.compressed_rope if ratio else self.plain_rope
        positions = torch.arange(length, dtype=torch.int32).repeat(batch)
        latent = self._normed(at + "q_norm.weight", self._linear(at + "wq_a", entered), positions, tables, turn=0)
        query = self._linear(at + "wq_b", latent).view(-1, shape.head_dim)
        query = NormRope.apply(query, torch.empty(0), positions, tables, shape.heads, True, 1)
        query = query.view(batch, length, shape.heads, shape.head_dim)
        raw = self._normed(at + "kv_norm.weight", self._linear(at + "wkv", entered), positions, tables, turn=1)
        compressed = self._compress(at + "compressor.", entered, rows, ratio, tables) if ratio else None
        scores = None
        if ratio == 4 and (learns_index or is_sparse):
            scores = self._index_scores(at + "indexer.", entered.detach(), latent.detach(), rows, positions, tables)
        selected = _select(scores, shape.index_top_k) if scores is not None and is_sparse else None
        wants_mass = scores is not None and learns_index
        raw = raw.view(batch, length, -1)
        sinks = self.parameters.read(at + "attn_sink")
        output, mass = Attention.apply(query, raw, compressed, sinks, rows.starts, ratio, selected, wants_mass)
        output = NormRope.apply(
            output.reshape(-1, shape.head_dim), torch.empty(0), positions, tables, shape.heads, False, -1
        )
        return self._leave(at, output), _index_loss(scores, mass) if wants_mass else None

    def _leave(self, at: str, output: Tensor) -> Tensor:
        """Heads in groups, each through its own low-rank projection, then joined."""
        shape = self.shape
        grouped = output.view(-1, shape.output_groups, shape.heads * shape.head_dim // shape.output_groups)
        inner = self.parameters.read(at + "wo_a.weight").to(MATMUL).view(shape.output_groups, shape.output_rank, -1)
        low = [functional.linear(grouped[:, group], inner[group]) for group in range(shape.output_groups)]
        return self._linear(at + "wo_b", torch.cat(low, -1))

    def _compress(self, at: str, entered: Tensor, rows: Rows, ratio: int, tables: tuple[Tensor, Tensor]) -> Tensor:
        """Compressed rows (B, T / ratio, d); each carries the position of its first token."""
        batch, length = rows.ids.shape
        content = self._linear(at + "wkv", entered).float().view(batch, length, -1)
        gate = self._linear(at + "wgate", entered).float().view(batch, length, -1)
        pooled = _pool(content, gate, self.parameters.read(at + "ape"), ratio)
        positions = (torch.arange(length // ratio, dtype=torch.int32) * ratio).repeat(batch)
        flat = pooled.to(MATMUL).reshape(-1, pooled.shape[-1])
        return self._normed(at + "norm.weight", flat, positions, tables, turn=1).view(batch, length // ratio, -1)

    def _index_scores(
        self, at: str, entered: Tensor, latent: Tensor, rows: Rows, positions: Tensor, tables: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The lightning indexer's score of every compressed row (B, T, C) f32; what may not be seen has -1e30."""
        shape, (batch, length) = self.shape, rows.ids.shape
        keys = self._compress(at + "compressor.", entered, rows, 4, tables)
        query = self._linear(at + "wq_b", latent).view(-1, shape.index_head_dim)
        query = NormRope.apply(query, torch.empty(0), positions, tables, shape.index_heads, False, 1)
        query = query.view(batch, length * shape.index_heads, -1)
        weights = functional.linear(entered.float(), self.parameters.read(at + "weights_proj.weight"))
        weights = weights.view(batch, length, -1, 1) * (shape.index_heads * shape.index_head_dim) ** -0.5
        agreement = functional.relu(torch.bmm(query, keys.transpose(1, 2)).float())
        scores = (agreement.view(batch, length, shape.index_heads, -1) * weights).sum(2)
        row, token = torch.arange(length // 4), torch.arange(length)
        is_complete = row[None, None] < ((token + 1) // 4)[None, :, None]
        is_own = row[None, None] * 4 >= rows.starts[..., None]
        return scores.masked_fill(~(is_complete & is_own), -1e30)

    def _feed_forward(self, prefix: str, layer: int, entered: Tensor, rows: Rows) -> Tensor:
        shape, read, at = self.shape, self.parameters.read, prefix + "ffn."
        affinity = functional.softplus(functional.linear(entered.float(), read(at + "gate.weight"))).sqrt()
        chosen = self._route(at, layer, affinity, rows)
        weights = affinity.gather(1, chosen)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * shape.routed_scale
        gate_up, down = (read(at + f"experts.{name}").to(MATMUL) for name in ("w13", "w2"))
        routed = Experts.apply(entered, weights, chosen, gate_up, down, shape.swiglu_limit)
        both = functional.linear(entered, read(at + "shared_experts.w13").to(MATMUL))
        shared = functional.linear(SwiGlu.apply(both, shape.swiglu_limit), read(at + "shared_experts.w2").to(MATMUL))
        return (routed + shared.float()).to(MATMUL)

    def _route(self, at: str, layer: int, affinity: Tensor, rows: Rows) -> Tensor:
        """The experts (N, k) of each token: by its id in the hash layers, else the highest biased affinities."""
        tables = self.parameters.tables
        if layer < self.shape.hash_layers:
            return tables[at + "gate.tid2eid"][rows.ids.view(-1)]
        with torch.no_grad():
            chosen = (affinity + tables[at + "gate.bias"]).topk(self.shape.experts_used, -1).indices
            self.expert_load[at] = torch.bincount(chosen.view(-1), minlength=self.shape.experts).float()
        return chosen

    def _head(self, prefix: str, streams: Tensor, *, trains_shared: bool = True) -> Tensor:
        read = self.parameters.read
        flat = streams.flatten(1)
        scale = torch.rsqrt(flat.square().mean(-1, keepdim=True) + EPSILON)
        mixed = functional.linear(flat, read(prefix + "hc_head_fn")) * scale * read(prefix + "hc_head_scale")
        pre = torch.sigmoid(mixed + read(prefix + "hc_head_base")) + EPSILON
        joined = _rms_norm((pre[..., None] * streams).sum(1), read(prefix + "norm.weight"))
        head = read("head.weight") if trains_shared else read("head.weight").detach()
        return functional.linear(joined.to(MATMUL), head.to(MATMUL)).float()

    def _linear(self, name: str, entered: Tensor) -> Tensor:
        return functional.linear(entered, self.parameters.read(name + ".weight").to(MATMUL))

    def _normed(self, weight: str, rows: Tensor, positions: Tensor, tables: tuple[Tensor, Tensor], turn: int) -> Tensor:
        return NormRope.apply(rows, self.parameters.read(weight), positions, tables, 1, True, turn)


def rope_tables(length: int, theta: float, factor: float | None) -> tuple[Tensor, Tensor]:
    """Cosines and sines (length, 32) f32; with a factor, YaRN's blend of slowed and unslowed frequencies.

    The ramp's ends, pairs 15 and 25, follow from theta 160000, 65536 original positions and beta 32 and 1.
    """
    pair = torch.arange(32, dtype=torch.float32)
    frequency = 1.0 / theta ** (2 * pair / 64)
    if factor is not None:
        slowed = ((pair - 15) / 10).clamp(0, 1)
        frequency = frequency * (1 - slowed) + frequency / factor * slowed
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    return angle.cos().contiguous(), angle.sin().contiguous()


def _rms_norm(values: Tensor, weight: Tensor) -> Tensor:
    return values * torch.rsqrt(values.square().mean(-1, keepdim=True) + EPSILON) * weight


def _pool(content: Tensor, gate: Tensor, position_bias: Tensor, ratio: int) -> Tensor:
    """Softmax-weighted sums over windows of `ratio` tokens; at ratio 4 each row also sees the window before."""
    batch, length, channels = content.shape
    content = content.view(batch, length // ratio, ratio, channels)
    gate = gate.view(batch, length // ratio, ratio, channels) + position_bias
    if ratio == 4:
        half, shift = channels // 2, (0, 0, 0, 0, 1, 0)
        content = torch.cat([functional.pad(content[:, :-1, :, :half], shift), content[..., half:]], 2)
        gate = torch.cat([functional.pad(gate[:, :-1, :, :half], shift, value=-1e30), gate[..., half:]], 2)
    return (content * gate.softmax(2)).sum(2)


def _select(scores: Tensor, top_k: int) -> Tensor | None:
    """A mask (B, T, C) uint8 of the best rows; None when there are no more than that."""
    if scores.shape[-1] <= top_k:
        return None
    best = scores.detach().topk(top_k, -1).indices
    return torch.zeros_like(scores, dtype=torch.uint8).scatter_(2, best, 1)


def _index_loss(scores: Tensor, mass: Tensor) -> Tensor:
    """Cross entropy of the indexer's distribution against where attention looked, over tokens that looked back."""
    total = mass.sum(-1, keepdim=True)
    counts = (total[..., 0] > 0.05).float()
    loss = -(mass / (total + 1e-6) * scores.log_softmax(-1).clamp(min=-50)).sum(-1)
    return (loss * counts).sum() / counts.sum().clamp(min=1)
