"""All parameters by DeepSeek's release names, with the experts of a layer stacked; where they start; what is what.

`release_state` and `from_release` translate to and from one tensor per expert. `add_mtp` gives a trunk a draft block
that starts as a copy of parts of it. `renew_compressors` starts the 4:1 compressors from the window's rows.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from nano.shape import Shape

MTP = "mtp.0."
STARTS_AT_ONE = ("norm.weight",)
MATRIX_ENDS = ("wq_a.weight", "wq_b.weight", "wkv.weight", "wgate.weight", "wo_a.weight", "wo_b.weight")
MATRIX_ENDS += ("w13", "w2", "e_proj.weight", "h_proj.weight")


class Parameters:
    """`values` are trained, `tables` are not (token table of the hash layers, balancing bias of the other routers)."""

    def __init__(self, values: Mapping[str, Tensor], tables: Mapping[str, Tensor]):
        self.values = {name: value.float().contiguous().requires_grad_() for name, value in values.items()}
        self.tables = dict(tables)

    def read(self, name: str) -> Tensor:
        return self.values[name]

    @property
    def has_mtp(self) -> bool:
        return any(name.startswith(MTP) for name in self.values)

    def matrices(self) -> list[str]:
        """What Muon trains; everything else is AdamW's."""
        return [name for name in self.values if name.endswith(MATRIX_ENDS)]

    def release_state(self, values: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Release names and one tensor per expert; `values` in place of the trained ones (their running mean)."""
        state: dict[str, Tensor] = {}
        for name, value in (values or self.values).items():
            for part, tensor in _unstacked(name, value.detach()):
                state[part] = tensor.clone()
        return state | {name: table.clone() for name, table in self.tables.items()}

    @classmethod
    def from_release(cls, shape: Shape, state: Mapping[str, Tensor]) -> "Parameters":
        """Raises KeyError for a tensor that is missing. An MTP block is taken when there is one."""
        prefixes = [f"layers.{layer}." for layer in range(shape.layers)]
        prefixes += [MTP] if any(name.startswith(MTP) for name in state) else []
        values = {name: state[name] for name in state if ".experts." not in name and ".shared_experts." not in name}
        tables = {name: values.pop(name).clone() for name in list(values) if name.endswith(("tid2eid", "gate.bias"))}
        for prefix in prefixes:
            at = prefix + "ffn."
            routed = [_expert(state, f"{at}experts.{number}.") for number in range(shape.experts)]
            values[at + "experts.w13"], values[at + "experts.w2"] = map(torch.stack, zip(*routed, strict=True))
            values[at + "shared_experts.w13"], values[at + "shared_experts.w2"] = _expert(state, at + "shared_experts.")
        return cls({name: value.clone() for name, value in values.items()}, tables)

    @classmethod
    def fresh(cls, shape: Shape, seed: int, spaced_pairs: list[tuple[int, int]] | None = None) -> "Parameters":
        """Where training from nothing starts. `spaced_pairs`: ids of (word, space + word), begun close together."""
        generator = torch.Generator().manual_seed(seed)
        values: dict[str, Tensor] = {
            "embed.weight": torch.randn(shape.vocab, shape.hidden, generator=generator) * 0.5,
            "head.weight": torch.randn(shape.vocab, shape.hidden, generator=generator) * 0.02,
            "norm.weight": torch.ones(shape.hidden),
            "hc_head_fn": torch.randn(4, 4 * shape.hidden, generator=generator) * 0.005,
            "hc_head_base": torch.zeros(4),
            "hc_head_scale": torch.ones(1),
        }
        tables: dict[str, Tensor] = {}
        for layer in range(shape.layers):
            prefix = f"layers.{layer}."
            values |= {prefix + name: value for name, value in _fresh_block(shape, layer, generator)}
            tables |= {prefix + name: table for name, table in _fresh_tables(shape, layer, generator)}
        _bring_together(values, spaced_pairs or [], generator)
        return cls(values, tables)


def renew_compressors(shape: Shape, parameters: Parameters) -> None:
    """Start the 4:1 compressors again, as plain means of the window's own rows.

    What finds a token inside the window then also finds it, fainter, in a compressed row, so that training sharpens a
    circuit that is there: from random compressors millions of tokens did not find one (docs/log.md).
    """
    with torch.no_grad():
        for layer, ratio in enumerate(shape.compress_ratios[: shape.layers]):
            if ratio != 4:
                continue
            at = f"layers.{layer}.attn."
            window = parameters.values[at + "wkv.weight"]
            parameters.values[at + "compressor.wkv.weight"].copy_(torch.cat([window, window]))
            parameters.values[at + "compressor.norm.weight"].copy_(parameters.values[at + "kv_norm.weight"])
            parameters.values[at + "compressor.wgate.weight"].zero_()
            parameters.values[at + "compressor.ape"].zero_()


def add_mtp(shape: Shape, parameters: Parameters) -> Parameters:
    """A trunk with an MTP block that starts as layer 1's attention and the last layer's experts."""
    trunk, last = parameters.values, f"layers.{shape.layers - 1}."
    values = {name: value.detach() for name, value in trunk.items()}
    for name, value in trunk.items():
        if name.startswith("layers.1.") and ".ffn." not in name and "ffn_" not in name:
            values[MTP + name.removeprefix("layers.1.")] = value.detach().clone()
        elif name.startswith(last) and ("ffn" in name.split(".")[2] or name.startswith(last + "hc_ffn")):
            values[MTP + name.removeprefix(last)] = value.detach().clone()
    for name in ("norm.weight", "hc_head_fn", "hc_head_base", "hc_head_scale"):
        values[MTP + name] = trunk[name].detach().clone()
    values |= {MTP + name: torch.ones(shape.hidden) for name in ("enorm.weight", "hnorm.weight")}
    values[MTP + "e_proj.weight"] = torch.eye(shape.hidden) * 0.5
    values[MTP + "h_proj.weight"] = torch.eye(shape.hidden)
    bias = parameters.tables[last + "ffn.gate.bias"].clone()
    return Parameters(values, parameters.tables | {MTP + "ffn.gate.bias": bias})


def _unstacked(name: str, value: Tensor) -> Iterator[tuple[str, Tensor]]:
    if not name.endswith((".w13", ".w2")):
        yield name, value
        return
    stem, _, part = name.rpartition(".")
    experts = enumerate(value) if value.dim() == 3 else [(None, value)]
    for number, weights in experts:
        at = stem if number is None else f"{stem}.{number}"
        if part == "w2":
            yield f"{at}.w2.weight", weights
        else:
            half = len(weights) // 2
            yield f"{at}.w1.weight", weights[:half]
            yield f"{at}.w3.weight", weights[half:]


def _expert(state: Mapping[str, Tensor], at: str) -> tuple[Tensor, Tensor]:
    return torch.cat([state[at + "w1.weight"], state[at + "w3.weight"]]), state[at + "w2.weight"]


def _matrix(rows: int, columns: int, generator: torch.Generator, gain: float = 1.0) -> Tensor:
    return torch.randn(rows, columns, generator=generator) * gain / columns**0.5


def _fresh_block(shape: Shape, layer: int, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    for part in ("attn", "ffn"):
        yield f"{part}_norm.weight", torch.ones(shape.hidden)
        yield f"hc_{part}_fn", torch.randn(24, 4 * shape.hidden, generator=generator) * 0.01
        base = torch.zeros(24)  # read mostly one stream, write to all, keep the streams apart
        base[:4] = -1.0
        base[(2 * layer + (part == "ffn")) % 4] = 1.0
        base[4:8] = torch.randn(4, generator=generator) * 0.5
        base[8:] = (torch.eye(4) * 2.5).flatten()
        yield f"hc_{part}_base", base
        yield f"hc_{part}_scale", torch.full((3,), 0.5)
    for name, value in _fresh_attention(shape, shape.ratio(layer), generator):
        yield "attn." + name, value
    width, hidden = shape.expert_width, shape.hidden
    yield "ffn.gate.weight", _matrix(shape.experts, hidden, generator, 0.5)
    yield "ffn.experts.w13", torch.randn(shape.experts, 2 * width, hidden, generator=generator) / hidden**0.5
    yield "ffn.experts.w2", torch.randn(shape.experts, hidden, width, generator=generator) * 0.3 / width**0.5
    yield "ffn.shared_experts.w13", _matrix(2 * width, hidden, generator)
    yield "ffn.shared_experts.w2", _matrix(hidden, width, generator, 0.3)


def _fresh_attention(shape: Shape, ratio: int, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    heads_width = shape.heads * shape.head_dim
    yield "wq_a.weight", _matrix(shape.query_rank, shape.hidden, generator)
    yield "q_norm.weight", torch.ones(shape.query_rank)
    yield "wq_b.weight", _matrix(heads_width, shape.query_rank, generator)
    yield "wkv.weight", _matrix(shape.head_dim, shape.hidden, generator)
    yield "kv_norm.weight", torch.ones(shape.head_dim)
    yield "attn_sink", torch.zeros(shape.heads)
    low = shape.output_groups * shape.output_rank
    yield "wo_a.weight", _matrix(low, heads_width // shape.output_groups, generator)
    yield "wo_b.weight", _matrix(shape.hidden, low, generator, 0.3)
    if ratio:
        yield from _fresh_compressor("compressor.", shape.hidden, shape.head_dim, ratio, generator)
    if ratio == 4:
        yield "indexer.wq_b.weight", _matrix(shape.index_heads * shape.index_head_dim, shape.query_rank, generator)
        yield "indexer.weights_proj.weight", _matrix(shape.index_heads, shape.hidden, generator)
        yield from _fresh_compressor("indexer.compressor.", shape.hidden, shape.index_head_dim, 4, generator)


def _fresh_compressor(
    at: str, hidden: int, width: int, ratio: int, generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    channels = 2 * width if ratio == 4 else width
    yield at + "wkv.weight", _matrix(channels, hidden, generator)
    yield at + "wgate.weight", _matrix(channels, hidden, generator, 0.3)
    yield at + "ape", torch.randn(ratio, channels, generator=generator) * (1.0 if ratio == 4 else 0.2)
    yield at + "norm.weight", torch.ones(width)


def _fresh_tables(shape: Shape, layer: int, generator: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    if layer < shape.hash_layers:
        orders = [torch.randperm(shape.experts, generator=generator) for _ in range(shape.vocab)]
        yield "ffn.gate.tid2eid", torch.stack([order[: shape.experts_used] for order in orders])
    else:
        yield "ffn.gate.bias", torch.zeros(shape.experts)


def _bring_together(values: dict[str, Tensor], pairs: list[tuple[int, int]], generator: torch.Generator) -> None:
    """Start "space + word" tokens next to their bare word: a word is then copied the same way after any character."""
    embedding, head = values["embed.weight"], values["head.weight"]
    hidden = embedding.shape[1]
    space = torch.randn(hidden, generator=generator) * 0.35
    head_space = torch.randn(hidden, generator=generator) * 0.02
    for word, spaced in pairs:
        embedding[spaced] = embedding[word] * 0.8 + space + embedding[spaced] * 0.1
        head[spaced] = head[word] * 0.8 + head_space + head[spaced] * 0.3
