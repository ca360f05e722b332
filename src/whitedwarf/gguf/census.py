"""Which tensors a model must have, and of which shape (model.md 4.3 and 4.5), compared with what a file holds.

Promises that after `check_census` every tensor the engine will ask for is there with the shape it will assume, so
loading can index by name without looking. Types are judged only coarsely: any format we decode for matrices, plain
floats for vectors, I32 for the token table; which kernel runs on what is not known here.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.types import GgmlType

Kind = Literal["matrix", "vector", "indices"]


class HasTypeAndShape(Protocol):
    """What the census needs of a tensor description."""

    @property
    def type(self) -> GgmlType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """What is expected under one canonical name."""

    shape: tuple[int, ...]  # numpy order, slowest axis first
    required: bool = True
    kind: Kind = "matrix"

    def allows(self, type_: GgmlType) -> bool:
        """Whether elements may be stored so."""
        if self.kind == "indices":
            return type_ is GgmlType.I32
        if self.kind == "vector":
            return type_ in (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
        return type_ is not GgmlType.I32


Expectations = dict[str, ExpectedTensor]

# Extra tensors of known files that the main model does not need: vision routing biases, and the MTP blocks.
_DSPARK_MARK = "mtp.0.main_proj.weight"
_KNOWN_EXTRA = re.compile(r"blk\.\d+\.exp_probs_b_vl\.bias|mtp\.\d+\..+|blk\.\d+\.nextn\..+")


def expected_tensors(hp: Hyperparameters, held: range | None = None) -> Expectations:
    """Every tensor of the main model by canonical name; those outside the layers `held` are not required."""
    whole = _whole_model(hp)
    if held is None:
        return whole
    return {
        name: want if _is_held(name, held, hp.num_layers) else replace(want, required=False)
        for name, want in whole.items()
    }


def layers_present(hp: Hyperparameters, tensors: Iterable[str]) -> range:
    """The longest run of layers that are complete, with the embedding or the head where the run has to have them.

    Empty where there is none; of equally long runs the first.
    """
    names, best, start = set(tensors), range(0), 0
    expected = expected_tensors(hp)
    needed: list[list[str]] = [[] for _ in range(hp.num_layers)]
    for name, want in expected.items():
        if want.required:
            needed[_layer_of(name, hp.num_layers)].append(name)
    for layer in range(hp.num_layers):
        if not names.issuperset(needed[layer]):
            start = layer + 1
        elif layer + 1 - start > len(best):
            best = range(start, layer + 1)
    return best


def _is_held(name: str, held: range, num_layers: int) -> bool:
    return _layer_of(name, num_layers) in held


def _layer_of(name: str, num_layers: int) -> int:
    """With which layer a tensor of the main model has to be: the embedding with the first, the head with the last."""
    if name.startswith("blk."):
        return int(name.split(".")[1])
    return 0 if name.startswith("token_embd.") else num_layers - 1


def _whole_model(hp: Hyperparameters) -> Expectations:
    expected: Expectations = {
        "token_embd.weight": _matrix(hp.vocab_size, hp.hidden_size),
        "output.weight": _matrix(hp.vocab_size, hp.hidden_size),
        "output_norm.weight": _vector(hp.hidden_size),
        **_head_mixer(hp, "output_hc"),
    }
    for layer in range(hp.num_layers):
        prefix = f"blk.{layer}."
        expected |= _attention(hp, prefix)
        expected |= _compressors(hp, prefix, hp.compress_ratios[layer])
        expected |= _experts(hp, prefix, is_hash_layer=hp.is_hash_layer(layer))
    return expected


def mtp_tensors(hp: Hyperparameters, prefix: str = "mtp.0.") -> Expectations:
    """The 32 tensors of one MTP block: a layer without compression and with a biased router, and its own ends."""
    return {
        prefix + "e_proj.weight": _matrix(hp.hidden_size, hp.hidden_size),
        prefix + "h_proj.weight": _matrix(hp.hidden_size, hp.hidden_size),
        prefix + "enorm.weight": _vector(hp.hidden_size),
        prefix + "hnorm.weight": _vector(hp.hidden_size),
        prefix + "norm.weight": _vector(hp.hidden_size),
        **_head_mixer(hp, prefix + "hc_head"),
        **_attention(hp, prefix),
        **_experts(hp, prefix, is_hash_layer=False),
    }


def check_census(
    hp: Hyperparameters, tensors: Mapping[str, HasTypeAndShape], file_name: str, held: range | None = None
) -> None:
    """Compare a file's tensors (under canonical names) with the main model; FileFormatError names every difference.

    Of a part of the model, layers `held`, the others may be missing, but not be different.
    """
    refuse_support_file(tensors, file_name, 0 if held is None else held.start)
    expected = expected_tensors(hp, held)
    faults = [*_faults(expected, tensors), *_unexpected(hp, expected, tensors)]
    _raise_faults(faults, file_name)


def check_mtp_census(
    hp: Hyperparameters, tensors: Mapping[str, HasTypeAndShape], file_name: str, prefix: str = "mtp.0."
) -> None:
    """The same for one MTP block; tensors outside `prefix` are not looked at."""
    expected = mtp_tensors(hp, prefix)
    if _DSPARK_MARK in tensors:
        raise FileFormatError(
            f"{file_name}: its {prefix}* is a DSpark drafter, expected a classic MTP block; leave it out"
        )
    unexpected = (
        f"{name} is not part of an MTP block" for name in tensors if name.startswith(prefix) and name not in expected
    )
    _raise_faults([*_faults(expected, tensors), *unexpected], file_name)


def has_classic_mtp(tensors: Iterable[str]) -> bool:
    """Whether the names hold an MTP block, and not the DSpark drafter that newer checkpoints keep in its place."""
    names = [name for name in tensors if name.startswith("mtp.")]
    return bool(names) and _DSPARK_MARK not in names


def refuse_support_file(tensors: Iterable[str], file_name: str, first_layer: int = 0) -> None:
    """Refuse a file of draft blocks alone (model.md 4.5, 4.6); needs no metadata, which such files may lack."""
    names = set(tensors)
    has_draft = any(name.startswith("mtp.") or ".nextn." in name for name in names)
    if has_draft and f"blk.{first_layer}.attn_norm.weight" not in names:
        raise FileFormatError(
            f"{file_name} holds only the MTP draft block, expected a main model; give the main model's file instead"
        )


def _faults(expected: Expectations, tensors: Mapping[str, HasTypeAndShape]) -> Iterable[str]:
    for name, want in expected.items():
        found = tensors.get(name)
        if found is None:
            if want.required:
                yield f"{name} {list(want.shape)} is missing"
        elif tuple(found.shape) != want.shape:
            yield f"{name} has shape {list(found.shape)}, expected {list(want.shape)}"
        elif not want.allows(found.type):
            yield f"{name} has type {found.type.name}, expected {_TYPES_IN_WORDS[want.kind]}"


_TYPES_IN_WORDS: dict[Kind, str] = {
    "matrix": "a float or quantised type",
    "vector": "F32, F16 or BF16",
    "indices": "I32",
}


def _unexpected(hp: Hyperparameters, expected: Expectations, tensors: Mapping[str, HasTypeAndShape]) -> Iterable[str]:
    draft_layers = tuple(f"blk.{hp.num_layers + nextn}." for nextn in range(hp.num_nextn_layers))
    for name in tensors:
        if name not in expected and not _KNOWN_EXTRA.fullmatch(name) and not name.startswith(draft_layers):
            yield f"{name} is not a tensor of this model"


def _raise_faults(faults: list[str], file_name: str) -> None:
    if not faults:
        return
    shown = "; ".join(faults[:5])
    more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
    raise FileFormatError(
        f"{file_name}: {shown}{more}. The file is incomplete, or its metadata describes another model"
    )


def _matrix(*shape: int) -> ExpectedTensor:
    return ExpectedTensor(shape)


def _vector(size: int, required: bool = True) -> ExpectedTensor:
    return ExpectedTensor((size,), required, "vector")


def _head_mixer(hp: Hyperparameters, prefix: str) -> Expectations:
    return {
        f"{prefix}_fn.weight": _matrix(hp.hc_streams, hp.hc_streams * hp.hidden_size),
        f"{prefix}_base.weight": _vector(hp.hc_streams),
        f"{prefix}_scale.weight": _vector(1),
    }


def _layer_mixer(hp: Hyperparameters, prefix: str) -> Expectations:
    num_mixes = hp.hc_streams * (hp.hc_streams + 2)  # pre, post, comb
    return {
        f"{prefix}_fn.weight": _matrix(num_mixes, hp.hc_streams * hp.hidden_size),
        f"{prefix}_base.weight": _vector(num_mixes),
        f"{prefix}_scale.weight": _vector(3),
    }


def _attention(hp: Hyperparameters, prefix: str) -> Expectations:
    low_width = hp.num_output_groups * hp.o_lora_rank
    return {
        **_layer_mixer(hp, prefix + "hc_attn"),
        prefix + "attn_norm.weight": _vector(hp.hidden_size),
        prefix + "attn_q_a.weight": _matrix(hp.q_lora_rank, hp.hidden_size),
        prefix + "attn_q_a_norm.weight": _vector(hp.q_lora_rank),
        prefix + "attn_q_b.weight": _matrix(hp.num_heads * hp.head_dim, hp.q_lora_rank),
        prefix + "attn_kv.weight": _matrix(hp.head_dim, hp.hidden_size),
        prefix + "attn_kv_a_norm.weight": _vector(hp.head_dim),
        prefix + "attn_sinks.weight": _vector(hp.num_heads),
        prefix + "attn_output_a.weight": _matrix(low_width, hp.output_group_width),
        prefix + "attn_output_b.weight": _matrix(hp.hidden_size, low_width),
    }


def _compressors(hp: Hyperparameters, prefix: str, ratio: int) -> Expectations:
    if ratio == 0:
        return {}
    expected = _compressor(hp, prefix + "attn_compressor", ratio, hp.head_dim)
    if ratio == 4:  # only these layers choose among their rows
        expected |= _compressor(hp, prefix + "indexer_compressor", ratio, hp.index_head_dim)
        expected[prefix + "indexer.attn_q_b.weight"] = _matrix(hp.index_heads * hp.index_head_dim, hp.q_lora_rank)
        expected[prefix + "indexer.proj.weight"] = _matrix(hp.index_heads, hp.hidden_size)
    return expected


def _compressor(hp: Hyperparameters, prefix: str, ratio: int, row_dim: int) -> Expectations:
    width = row_dim * (2 if ratio == 4 else 1)  # overlapping windows keep two halves
    return {
        f"{prefix}_kv.weight": _matrix(width, hp.hidden_size),
        f"{prefix}_gate.weight": _matrix(width, hp.hidden_size),
        f"{prefix}_ape.weight": _matrix(ratio, width),
        f"{prefix}_norm.weight": _vector(row_dim),
    }


def _experts(hp: Hyperparameters, prefix: str, *, is_hash_layer: bool) -> Expectations:
    expected = {
        **_layer_mixer(hp, prefix + "hc_ffn"),
        prefix + "ffn_norm.weight": _vector(hp.hidden_size),
        prefix + "ffn_gate_inp.weight": _matrix(hp.num_experts, hp.hidden_size),
        prefix + "exp_probs_b.bias": _vector(hp.num_experts, required=not is_hash_layer),
        prefix + "ffn_gate_exps.weight": _matrix(hp.num_experts, hp.expert_size, hp.hidden_size),
        prefix + "ffn_up_exps.weight": _matrix(hp.num_experts, hp.expert_size, hp.hidden_size),
        prefix + "ffn_down_exps.weight": _matrix(hp.num_experts, hp.hidden_size, hp.expert_size),
        prefix + "ffn_gate_shexp.weight": _matrix(hp.expert_size, hp.hidden_size),
        prefix + "ffn_up_shexp.weight": _matrix(hp.expert_size, hp.hidden_size),
        prefix + "ffn_down_shexp.weight": _matrix(hp.hidden_size, hp.expert_size),
    }
    if is_hash_layer:
        expected[prefix + "ffn_gate_tid2eid.weight"] = ExpectedTensor(
            (hp.vocab_size, hp.num_experts_used), kind="indices"
        )
    return expected
