"""Synthetic models: a GGUF of any size with the real architecture and random weights, for tests and for speed.

Promises a file that our reader, census and tokenizer accept, whose activations stay finite and of the order of one, and
which is the same for the same arguments. Memory does not grow with the file. The model's words mean nothing.
"""

import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.gguf.census import ExpectedTensor, expected_tensors
from whitedwarf.gguf.hparams import Hyperparameters, to_metadata
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.synth_blocks import SLAB_BYTES, RandomBlocks
from whitedwarf.gguf.synth_shapes import ModelShape, model_shape
from whitedwarf.gguf.synth_vocabulary import tokenizer_metadata
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

Dialect = Literal["ds4", "llama.cpp"]
Progress = Callable[[int, int], None]  # bytes written, bytes in all


@dataclass(frozen=True, slots=True)
class ExpertTypes:
    """How the routed experts of a layer are stored."""

    gate_up: GgmlType
    down: GgmlType
    file_type: int  # llama.cpp's number for `general.file_type`


QUANTS = {
    "q2": ExpertTypes(GgmlType.IQ2_XXS, GgmlType.Q2_K, 19),
    "q4": ExpertTypes(GgmlType.Q4_K, GgmlType.Q4_K, 14),
    "q8": ExpertTypes(GgmlType.Q8_0, GgmlType.Q8_0, 7),
    "mxfp4": ExpertTypes(GgmlType.MXFP4, GgmlType.MXFP4, 38),
    "f16": ExpertTypes(GgmlType.F16, GgmlType.F16, 1),
}
_LAST_SHARE = 6 / 43  # a mixed file gives this part of its layers, the last ones, the second type (model.md 4.4)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of a tensor's values."""

    mean: float
    std: float


_SPREADS = {
    "token_embd": Spread(0.0, 1.0),
    "attn_sinks": Spread(0.0, 0.5),
    "exp_probs_b": Spread(0.0, 0.02),
    "ape": Spread(0.0, 0.3),
    "base": Spread(0.0, 0.3),
    "scale": Spread(0.5, 0.05),
    "norm": Spread(1.0, 0.1),
}
_ATTENTION_PROJECTIONS = ("attn_q_a", "attn_q_b", "attn_kv", "attn_output_a", "attn_output_b")
_SHARED_EXPERT = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")


def synthesise(
    path: str | os.PathLike[str],
    shape: ModelShape = "tiny",
    layers: int | None = None,
    experts: int | None = None,
    quant: str = "q2",
    seed: int = 0,
    split: int = 1,
    dialect: Dialect = "ds4",
    progress: Progress | None = None,
) -> Hyperparameters:
    """Write a model in `split` files. `quant` is a key of QUANTS, or two joined by `-` for a file that switches."""
    hp = model_shape(shape, layers, experts)
    plan = [(name, type_, want.shape) for name, want, type_ in plan_tensors(hp, quant, dialect)]
    metadata = _metadata(hp, shape, quant)
    largest = max(type_.row_bytes(dims[-1]) * math.prod(dims[:-1]) for _, type_, dims in plan)
    blocks = RandomBlocks(seed, min(SLAB_BYTES, 2 * largest))
    with GgufWriter(path, metadata, plan, num_shards=split) as writer:
        done_bytes = 0
        for name, type_, dims in plan:
            for piece in _pieces(
                hp, name, type_, dims, blocks, np.random.default_rng([seed, zlib.crc32(name.encode())])
            ):
                writer.write(name, piece)
                done_bytes += piece.nbytes
                if progress is not None:
                    progress(done_bytes, writer.size_bytes)
    return hp


def plan_tensors(hp: Hyperparameters, quant: str, dialect: Dialect) -> Iterator[tuple[str, ExpectedTensor, GgmlType]]:
    """Every tensor of a model and how it is stored. UsageError for a quantisation or dialect that there is not."""
    if dialect not in ("ds4", "llama.cpp"):
        raise UsageError(f"dialect {dialect!r}: expected 'ds4' or 'llama.cpp'")
    experts = _experts_per_layer(hp, quant)
    for name, want in expected_tensors(hp).items():
        if want.required:
            yield name, want, _type(name, want, experts, dialect)


def _experts_per_layer(hp: Hyperparameters, quant: str) -> list[ExpertTypes]:
    first, _, last = quant.partition("-")
    if first not in QUANTS or (last or first) not in QUANTS:
        names = ", ".join(QUANTS)
        raise UsageError(f"quantisation {quant!r}: expected one of {names}, or two joined by '-' (q2-q4)")
    num_last = max(round(hp.num_layers * _LAST_SHARE), 1) if last else 0
    return [QUANTS[first]] * (hp.num_layers - num_last) + [QUANTS[last or first]] * num_last


def _type(name: str, want: ExpectedTensor, experts: list[ExpertTypes], dialect: Dialect) -> GgmlType:
    """Element types as in model.md 4.3 (ds4) and 4.6 (llama.cpp)."""
    if want.kind != "matrix":
        return GgmlType.I32 if want.kind == "indices" else GgmlType.F32
    stem = _stem(name)
    if routed := re.fullmatch(r"blk\.(\d+)\.ffn_(gate|up|down)_exps\.weight", name):
        types = experts[int(routed[1])]
        return types.down if routed[2] == "down" else types.gate_up
    if stem in _ATTENTION_PROJECTIONS or stem in _SHARED_EXPERT:
        return GgmlType.Q8_0
    if dialect == "ds4":
        return GgmlType.Q8_0 if stem == "output" else GgmlType.F16
    if stem == "indexer.attn_q_b":
        return GgmlType.Q8_0
    return GgmlType.F32 if stem.endswith(("_fn", "_ape")) else GgmlType.BF16


def _stem(name: str) -> str:
    return re.sub(r"^blk\.\d+\.", "", name).rsplit(".", 1)[0]


def spread_of(name: str, columns: int) -> Spread:
    """Of a tensor's values, so that activations are of the order of one."""
    stem = _stem(name)
    for known in (stem, stem.rsplit("_", 1)[-1]):
        if known in _SPREADS:
            return _SPREADS[known]
    gain = 2.0 if stem == "output" else 1.0  # some distance between the best token and the next
    return Spread(0.0, gain / math.sqrt(columns))


def _pieces(
    hp: Hyperparameters,
    name: str,
    type_: GgmlType,
    dims: tuple[int, ...],
    blocks: RandomBlocks,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    if type_ is GgmlType.I32:
        yield expert_table(hp, rng)
        return
    spread = spread_of(name, dims[-1])
    if len(dims) == 1:
        yield (spread.mean + spread.std * rng.standard_normal(dims[0])).astype(np.float32)
        return
    num_parts = dims[0] if len(dims) == 3 else 1
    for _ in range(num_parts):  # each expert from its own place of the slab
        yield from blocks.pieces(type_, math.prod(dims) // num_parts, spread.std, rng)


def expert_table(hp: Hyperparameters, rng: np.random.Generator) -> np.ndarray:
    """(vocab, used) int32: distinct experts for every token, by steps that are coprime to the number of experts."""
    steps = [step for step in range(1, hp.num_experts + 1) if math.gcd(step, hp.num_experts) == 1]
    first = rng.integers(hp.num_experts, size=(hp.vocab_size, 1))
    step = rng.choice(steps, size=(hp.vocab_size, 1))
    return ((first + step * np.arange(hp.num_experts_used)) % hp.num_experts).astype(np.int32)


def _metadata(hp: Hyperparameters, shape: str, quant: str) -> TypedMetadata:
    name = f"synthetic {shape} {hp.num_layers} layers {hp.num_experts} experts {quant}"
    return {
        **to_metadata(hp),
        "general.name": (ValueType.STRING, name),
        "general.type": (ValueType.STRING, "model"),
        "general.file_type": (ValueType.UINT32, QUANTS[quant.partition("-")[0]].file_type),
        "general.quantization_version": (ValueType.UINT32, 2),
        **tokenizer_metadata(hp.vocab_size),
    }
