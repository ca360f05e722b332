"""Tensor names: canonical (model.md 4.3), the older community dialect (4.6) and DeepSeek's release names (6).

Promises pure functions over one table: every canonical name has exactly one release name and back. Knows no shapes, no
types and no hyperparameters; whether a name belongs to a given model is the business of `census`.

Routed experts are one canonical tensor but one release tensor per expert: `canonical_to_release` gives a name with
`{expert}` in the expert's place, and `release_to_canonical` gives the expert's number beside the canonical name.
"""

import re
from dataclasses import dataclass

EXPERT_PLACE = "{expert}"

# canonical -> release, both without their `blk.N.` / `layers.N.` / `mtp.N.` prefix
_GLOBAL = {
    "token_embd.weight": "embed.weight",
    "output.weight": "head.weight",
    "output_norm.weight": "norm.weight",
    "output_hc_fn.weight": "hc_head_fn",
    "output_hc_base.weight": "hc_head_base",
    "output_hc_scale.weight": "hc_head_scale",
}
_BLOCK = {
    "hc_attn_fn.weight": "hc_attn_fn",
    "hc_attn_base.weight": "hc_attn_base",
    "hc_attn_scale.weight": "hc_attn_scale",
    "hc_ffn_fn.weight": "hc_ffn_fn",
    "hc_ffn_base.weight": "hc_ffn_base",
    "hc_ffn_scale.weight": "hc_ffn_scale",
    "attn_norm.weight": "attn_norm.weight",
    "ffn_norm.weight": "ffn_norm.weight",
    "attn_q_a.weight": "attn.wq_a.weight",
    "attn_q_a_norm.weight": "attn.q_norm.weight",
    "attn_q_b.weight": "attn.wq_b.weight",
    "attn_kv.weight": "attn.wkv.weight",
    "attn_kv_a_norm.weight": "attn.kv_norm.weight",
    "attn_sinks.weight": "attn.attn_sink",
    "attn_output_a.weight": "attn.wo_a.weight",
    "attn_output_b.weight": "attn.wo_b.weight",
    "attn_compressor_kv.weight": "attn.compressor.wkv.weight",
    "attn_compressor_gate.weight": "attn.compressor.wgate.weight",
    "attn_compressor_ape.weight": "attn.compressor.ape",
    "attn_compressor_norm.weight": "attn.compressor.norm.weight",
    "indexer.attn_q_b.weight": "attn.indexer.wq_b.weight",
    "indexer.proj.weight": "attn.indexer.weights_proj.weight",
    "indexer_compressor_kv.weight": "attn.indexer.compressor.wkv.weight",
    "indexer_compressor_gate.weight": "attn.indexer.compressor.wgate.weight",
    "indexer_compressor_ape.weight": "attn.indexer.compressor.ape",
    "indexer_compressor_norm.weight": "attn.indexer.compressor.norm.weight",
    "ffn_gate_inp.weight": "ffn.gate.weight",
    "exp_probs_b.bias": "ffn.gate.bias",
    "ffn_gate_tid2eid.weight": "ffn.gate.tid2eid",
    "ffn_gate_exps.weight": f"ffn.experts.{EXPERT_PLACE}.w1.weight",
    "ffn_down_exps.weight": f"ffn.experts.{EXPERT_PLACE}.w2.weight",
    "ffn_up_exps.weight": f"ffn.experts.{EXPERT_PLACE}.w3.weight",
    "ffn_gate_shexp.weight": "ffn.shared_experts.w1.weight",
    "ffn_down_shexp.weight": "ffn.shared_experts.w2.weight",
    "ffn_up_shexp.weight": "ffn.shared_experts.w3.weight",
}
_MTP_ONLY = {
    "hc_head_fn.weight": "hc_head_fn",
    "hc_head_base.weight": "hc_head_base",
    "hc_head_scale.weight": "hc_head_scale",
    "e_proj.weight": "e_proj.weight",
    "h_proj.weight": "h_proj.weight",
    "enorm.weight": "enorm.weight",
    "hnorm.weight": "hnorm.weight",
    "norm.weight": "norm.weight",
}
_MTP = _BLOCK | _MTP_ONLY
_FROM_GLOBAL = {release: ours for ours, release in _GLOBAL.items()}
_FROM_BLOCK = {release: ours for ours, release in _BLOCK.items()}
_FROM_MTP = {release: ours for ours, release in _MTP.items()}

_CANONICAL_BLOCK = re.compile(r"(blk|mtp)\.([0-9]+)\.(.+)")
_RELEASE_BLOCK = re.compile(r"(layers|mtp)\.([0-9]+)\.(.+)")
_EXPERT = re.compile(r"ffn\.experts\.([0-9]+)\.(w[123]\.weight)")

_OLD_GLOBAL = {
    f"hc_head_{part}{suffix}": f"output_hc_{part}.weight"
    for part in ("fn", "base", "scale")
    for suffix in ("", ".weight")
}
# Spellings of the older dialect inside a block, without suffix; what is not listed is spelt as today.
_OLD_BLOCK = {
    "attn_kv_latent": "attn_kv",
    "attn_kv_latent_norm": "attn_kv_a_norm",
    "attn_kv_norm": "attn_kv_a_norm",
    "attn_q_norm": "attn_q_a_norm",
} | {
    f"{old}{part}": f"{new}{part}"
    for old, new in (
        ("attn_compress_", "attn_compressor_"),
        ("indexer.compress_", "indexer_compressor_"),
        ("indexer.compressor_", "indexer_compressor_"),
        ("indexer_compress_", "indexer_compressor_"),
    )
    for part in ("kv", "gate", "ape", "norm")
}


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """Where one release tensor goes: which canonical tensor, which expert of it, and whether it is a weight's scale."""

    canonical: str
    expert: int | None = None
    is_scale: bool = False


def canonical_name(file_name: str) -> str:
    """The name of model.md 4.3 for a tensor name of a GGUF file; canonical and unknown names stay as they are."""
    if file_name in _OLD_GLOBAL:
        return _OLD_GLOBAL[file_name]
    found = _CANONICAL_BLOCK.fullmatch(file_name)
    if found is None:
        return file_name
    space, number, rest = found.groups()
    return f"{space}.{number}.{_canonical_in_block(rest, _MTP if space == 'mtp' else _BLOCK)}"


def _canonical_in_block(rest: str, known: dict[str, str]) -> str:
    if rest in known:
        return rest
    stem = rest.removesuffix(".weight").removesuffix(".bias")
    stem = _OLD_BLOCK.get(stem, stem)
    for suffix in (".weight", ".bias"):
        if f"{stem}{suffix}" in known:
            return f"{stem}{suffix}"
    return rest


def canonical_to_release(name: str) -> str | None:
    """The release name of a canonical one (with `{expert}` for routed experts), or None when there is none."""
    if name in _GLOBAL:
        return _GLOBAL[name]
    found = _CANONICAL_BLOCK.fullmatch(name)
    if found is None:
        return None
    space, number, rest = found.groups()
    release = (_MTP if space == "mtp" else _BLOCK).get(rest)
    return None if release is None else f"{'mtp' if space == 'mtp' else 'layers'}.{number}.{release}"


def release_to_canonical(name: str) -> ReleasePart | None:
    """Place a release tensor; alternative spellings are understood. None when no canonical tensor holds it."""
    name = normalise_release_name(name)
    is_scale = name.endswith(".scale")
    if is_scale:
        name = name.removesuffix(".scale") + ".weight"
    if name in _FROM_GLOBAL:
        return ReleasePart(_FROM_GLOBAL[name], None, is_scale)
    found = _RELEASE_BLOCK.fullmatch(name)
    if found is None:
        return None
    space, number, rest = found.groups()
    expert = None
    if routed := _EXPERT.fullmatch(rest):
        expert = int(routed[1])
        rest = f"ffn.experts.{EXPERT_PLACE}.{routed[2]}"
    ours = (_FROM_MTP if space == "mtp" else _FROM_BLOCK).get(rest)
    if ours is None:
        return None
    return ReleasePart(f"{'mtp' if space == 'mtp' else 'blk'}.{number}.{ours}", expert, is_scale)


def normalise_release_name(name: str) -> str:
    """Undo the alternative spellings that DeepSeek's own converter tolerates (model.md 6)."""
    parts = name.removeprefix("model.").split(".")
    respelt = {
        "self_attn": "attn",
        "mlp": "ffn",
        "weight_scale_inv": "scale",
        "e_score_correction_bias": "bias",
        "embed_tokens": "embed",
        "lm_head": "head",
    }
    return ".".join(respelt.get(part, part) for part in parts)


def is_duplicate_in_mtp(release_name: str) -> bool:
    """Whether this is the embedding or head that some checkpoints repeat inside `mtp.*`; the main model's is used."""
    found = _RELEASE_BLOCK.fullmatch(normalise_release_name(release_name))
    return found is not None and found[1] == "mtp" and found[3] in ("embed.weight", "head.weight", "emb.tok_emb.weight")
