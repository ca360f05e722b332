"""Make the golden data of tests/golden/oracle that does not come from the workshop.

    python scripts/make_oracle_golden.py packed     tinyA with the rounding of the packed cache -> packed.npz
    python scripts/make_oracle_golden.py tinyB tinyC     two more random models of other shapes, with reference logits
    python scripts/make_oracle_golden.py search tinyB    seeds of that model, best choice margins first

The reference is tests/oracle/transcription.py, which test_transcription.py compares with transformers.
Arrays: VARIANT_PROMPT_logits at positions PROMPT_pos, VARIANT_PROMPT_choice_margins (as in the workshop's ref.npz),
VARIANT_router_L and VARIANT_index_L (picks of `medium`, -1 = none), VARIANT_short_gen_ids (48 greedy tokens), and
VARIANT_PROMPT_noise: how far the logits move, per kept position, when every weight moves a little, so that the plain
logits move as far as float32 arithmetic moves them (largest of three draws). Rounding turns a small difference into a
large one as soon as it crosses a tie; compare closely only where the noise is small.
Variants: plain (no rounding), exact and half (rounding; rotary dims exact or float16).
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import gguf

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from oracle.fixtures import GOLDEN, oracle_arrays, oracle_file, oracle_model  # noqa: E402
from oracle.transcription import Array, Model, Run, forward, greedy, with_rounding  # noqa: E402
from oracle.transcription_mtp import MtpState, draft, mtp_forward, with_mtp  # noqa: E402
from oracle.weights_source import load_model, read_metadata, read_tensors  # noqa: E402

Rng = np.random.Generator
Arrays = dict[str, np.ndarray[Any, Any]]

GENERATED = 48
DRAFTED = 4
NOISE = 2e-7  # relative, per weight: moves plain logits as far as float32 arithmetic does (transformers: 1.5e-5)
VARIANTS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda model: model,
    "exact": lambda model: with_rounding(model, None),
    "half": lambda model: with_rounding(model, np.float16),
}


# ---- references ------------------------------------------------------------------------------------


def reference(model: Model, variant: str, prompts: Mapping[str, Array], kept: Mapping[str, Array]) -> Arrays:
    """Logits, margins, noise of every prompt; picks of `medium`; the greedy continuation of `short`."""
    model = VARIANTS[variant](model)
    runs = {name: forward(model, ids) for name, ids in prompts.items()}
    out: Arrays = {}
    for name, run in runs.items():
        out[f"{variant}_{name}_logits"] = run.logits[kept[name]].astype(np.float32)
        out[f"{variant}_{name}_choice_margins"] = np.array(run.choice_margins())
        out[f"{variant}_{name}_noise"] = noise(model, prompts[name], kept[name], run.logits[kept[name]])
    out |= {f"{variant}_{name}": picks for name, picks in picks_of(model, runs["medium"]).items()}
    out[f"{variant}_short_gen_ids"] = np.array(greedy(model, prompts["short"], GENERATED), np.int32)
    return out


def main_logits(model: Model, ids: Array) -> Array:
    return forward(model, ids).logits


def mtp_logits(model: Model, ids: Array) -> Array:
    return np.array([p.logits for p in mtp_forward(model, MtpState(), forward(model, ids), ids)])


def noise(
    model: Model, ids: Array, kept: Array, logits: Array, run: Callable[[Model, Array], Array] = main_logits
) -> np.ndarray[Any, Any]:
    moved = [np.abs(run(disturbed(model, seed), ids)[kept] - logits).max(axis=1) for seed in range(3)]
    return np.max(moved, axis=0).astype(np.float32)


def disturbed(model: Model, seed: int) -> Model:
    rng = np.random.default_rng(seed)
    return replace(
        model,
        weights={
            name: value if "tid2eid" in name else value * (1 + NOISE * rng.standard_normal(value.shape))
            for name, value in model.weights.items()
        },
    )


def picks_of(model: Model, run: Run) -> Arrays:
    out: Arrays = {}
    for index, ratio in enumerate(model.numbers.ratios):
        if index >= model.numbers.hash_layers:
            out[f"router_{index}"] = run.experts(index).astype(np.int16)
        if ratio == 4:
            out[f"index_{index}"] = padded(run.blocks(index), model.numbers.index_topk)
    return out


def padded(rows: list[Any], width: int) -> np.ndarray[Any, Any]:
    out = np.full((len(rows), width), -1, np.int16)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


def make_packed() -> None:
    workshop = oracle_arrays("tinyA/ref.npz")
    names = ("short", "text", "medium")
    prompts, kept = ({name: workshop[f"{name}_{key}"] for name in names} for key in ("ids", "pos"))
    out: Arrays = {f"{name}_pos": kept[name] for name in names} | {f"{name}_ids": prompts[name] for name in names}
    for variant in ("exact", "half"):
        out |= reference(oracle_model("tinyA/tiny-f32.gguf"), variant, prompts, kept)
    save(GOLDEN / "packed.npz", out)


def save(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


# ---- more models -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """A random model of this kind; what it lacks (norm epsilon, Sinkhorn, ...) is the same in all releases."""

    seed: int
    tokens_of: str  # the model of tests/golden/oracle whose tokenizer it borrows
    vocab: int
    hidden: int
    heads: int
    head_dim: int
    rope_dim: int
    query_rank: int
    groups: int
    group_rank: int
    window: int
    ratios: tuple[int, ...]  # may name more layers than there are: the MTP block's
    layers: int
    hash_layers: int
    experts: int
    experts_used: int
    expert_width: int
    expert_scale: float
    clamp: float
    gate_gain: float  # of the SwiGLU's inputs, so large that the clamp bites now and then
    index_heads: int
    index_head_dim: int
    index_topk: int
    yarn_factor: float
    yarn_context: int
    has_mtp: bool


SHAPES = {
    # Small head with half of it rotary, ratio 4 in the very first (hash-routed) layer, window of 16.
    "tinyB": Shape(
        seed=5,
        tokens_of="tinyQ/tiny-iq2.gguf",
        vocab=512,
        hidden=192,
        heads=8,
        head_dim=64,
        rope_dim=32,
        query_rank=48,
        groups=4,
        group_rank=32,
        window=16,
        ratios=(4, 128, 0, 4),
        layers=4,
        hash_layers=1,
        experts=8,
        experts_used=2,
        expert_width=96,
        expert_scale=1.5,
        clamp=7.0,
        gate_gain=2.5,
        index_heads=12,
        index_head_dim=64,
        index_topk=8,
        yarn_factor=8.0,
        yarn_context=8192,
        has_mtp=False,
    ),
    # PRO's plan (no plain window in the main layers, scale 2.5), counts that are no powers of two, and an MTP block.
    "tinyC": Shape(
        seed=1,
        tokens_of="tinyA/tiny-f32.gguf",
        vocab=768,
        hidden=160,
        heads=6,
        head_dim=192,
        rope_dim=64,
        query_rank=64,
        groups=3,
        group_rank=48,
        window=24,
        ratios=(128, 128, 4, 128, 4, 0),
        layers=5,
        hash_layers=3,
        experts=12,
        experts_used=4,
        expert_width=64,
        expert_scale=2.5,
        clamp=10.0,
        gate_gain=3.5,
        index_heads=16,
        index_head_dim=128,
        index_topk=4,
        yarn_factor=16.0,
        yarn_context=65536,
        has_mtp=True,
    ),
}


def matrix(rng: Rng, *shape: int, gain: float = 1.0) -> Array:
    """About normal with deviation gain / sqrt(inputs), in 15 steps: small when compressed, exact in float16."""
    steps = np.clip(np.rint(2 * rng.standard_normal(shape)), -7, 7) / 2
    return np.asarray(steps * short_float(gain / np.sqrt(shape[-1])))


def short_float(x: float) -> float:
    mantissa, exponent = np.frexp(x)
    return float(np.ldexp(np.rint(mantissa * 8) / 8, exponent))


def vector(rng: Rng, size: int, mean: float, deviation: float) -> Array:
    return np.asarray(np.rint(64 * (mean + deviation * rng.standard_normal(size))) / 64)


def hyper_weights(rng: Rng, s: Shape, name: str) -> Arrays:
    return {
        f"{name}_fn.weight": matrix(rng, 24, 4 * s.hidden),
        f"{name}_base.weight": vector(rng, 24, 0.0, 0.8),
        f"{name}_scale.weight": np.array([0.5, 0.5, 0.75]),
    }


def head_hyper_weights(rng: Rng, s: Shape, name: str) -> Arrays:
    return {
        f"{name}_fn.weight": matrix(rng, 4, 4 * s.hidden),
        f"{name}_base.weight": vector(rng, 4, 0.0, 0.8),
        f"{name}_scale.weight": np.array([0.5]),
    }


def attention_weights(rng: Rng, s: Shape, p: str) -> Arrays:
    return {
        f"{p}attn_norm.weight": vector(rng, s.hidden, 1.0, 0.2),
        f"{p}attn_q_a.weight": matrix(rng, s.query_rank, s.hidden),
        f"{p}attn_q_a_norm.weight": vector(rng, s.query_rank, 1.0, 0.2),
        f"{p}attn_q_b.weight": matrix(rng, s.heads * s.head_dim, s.query_rank),
        f"{p}attn_kv.weight": matrix(rng, s.head_dim, s.hidden),
        f"{p}attn_kv_a_norm.weight": vector(rng, s.head_dim, 1.5, 0.3),
        f"{p}attn_sinks.weight": vector(rng, s.heads, 0.0, 1.0),
        f"{p}attn_output_a.weight": matrix(rng, s.groups * s.group_rank, s.heads * s.head_dim // s.groups),
        f"{p}attn_output_b.weight": matrix(rng, s.hidden, s.groups * s.group_rank),
    }


def compressor_weights(rng: Rng, s: Shape, name: str, ratio: int, width: int) -> Arrays:
    channels = 2 * width if ratio == 4 else width
    return {
        f"{name}_kv.weight": matrix(rng, channels, s.hidden),
        f"{name}_gate.weight": matrix(rng, channels, s.hidden),
        f"{name}_ape.weight": vector(rng, ratio * channels, 0.0, 0.5).reshape(ratio, channels),
        f"{name}_norm.weight": vector(rng, width, 1.5, 0.3),
    }


def indexer_weights(rng: Rng, s: Shape, p: str) -> Arrays:
    return {
        f"{p}indexer.attn_q_b.weight": matrix(rng, s.index_heads * s.index_head_dim, s.query_rank),
        f"{p}indexer.proj.weight": matrix(rng, s.index_heads, s.hidden),
    } | compressor_weights(rng, s, f"{p}indexer_compressor", 4, s.index_head_dim)


def expert_weights(rng: Rng, s: Shape, p: str, is_hash_routed: bool) -> Arrays:
    e, f, d, gain = s.experts, s.expert_width, s.hidden, s.gate_gain
    table = rng.permuted(np.tile(np.arange(e), (s.vocab, 1)), axis=1)[:, : s.experts_used]
    choice = {"ffn_gate_tid2eid.weight": table} if is_hash_routed else {"exp_probs_b.bias": vector(rng, e, 0.0, 0.2)}
    return {f"{p}{name}": value for name, value in choice.items()} | {
        f"{p}ffn_norm.weight": vector(rng, d, 1.0, 0.2),
        f"{p}ffn_gate_inp.weight": matrix(rng, e, d),
        f"{p}ffn_gate_exps.weight": matrix(rng, e, f, d, gain=gain),
        f"{p}ffn_up_exps.weight": matrix(rng, e, f, d, gain=gain),
        f"{p}ffn_down_exps.weight": matrix(rng, e, d, f, gain=1 / gain**2),
        f"{p}ffn_gate_shexp.weight": matrix(rng, f, d, gain=gain),
        f"{p}ffn_up_shexp.weight": matrix(rng, f, d, gain=gain),
        f"{p}ffn_down_shexp.weight": matrix(rng, d, f, gain=1 / gain**2),
    }


def block_weights(rng: Rng, s: Shape, p: str, ratio: int, is_hash_routed: bool) -> Arrays:
    out = hyper_weights(rng, s, f"{p}hc_attn") | attention_weights(rng, s, p)
    if ratio:
        out |= compressor_weights(rng, s, f"{p}attn_compressor", ratio, s.head_dim)
    if ratio == 4:
        out |= indexer_weights(rng, s, p)
    return out | hyper_weights(rng, s, f"{p}hc_ffn") | expert_weights(rng, s, p, is_hash_routed)


def main_weights(s: Shape) -> Arrays:
    rng = np.random.default_rng([s.seed, 0])
    out = {
        "token_embd.weight": matrix(rng, s.vocab, s.hidden, gain=np.sqrt(s.hidden)),
        "output.weight": matrix(rng, s.vocab, s.hidden, gain=2.5),
        "output_norm.weight": vector(rng, s.hidden, 1.0, 0.2),
    } | head_hyper_weights(rng, s, "output_hc")
    for index in range(s.layers):
        out |= block_weights(rng, s, f"blk.{index}.", s.ratios[index], index < s.hash_layers)
    return out


def mtp_weights(s: Shape) -> Arrays:
    rng = np.random.default_rng([s.seed, 1])
    p = "mtp.0."
    return (
        {
            f"{p}e_proj.weight": matrix(rng, s.hidden, s.hidden),
            f"{p}h_proj.weight": matrix(rng, s.hidden, s.hidden),
            f"{p}enorm.weight": vector(rng, s.hidden, 1.0, 0.2),
            f"{p}hnorm.weight": vector(rng, s.hidden, 1.0, 0.2),
            f"{p}norm.weight": vector(rng, s.hidden, 1.0, 0.2),
        }
        | head_hyper_weights(rng, s, f"{p}hc_head")
        | block_weights(rng, s, p, 0, False)
    )


# ---- writing GGUF ----------------------------------------------------------------------------------


def integer_keys(s: Shape) -> dict[str, int]:
    return {
        "block_count": s.layers,
        "embedding_length": s.hidden,
        "embedding_length_out": 4 * s.hidden,
        "vocab_size": s.vocab,
        "context_length": 1048576,
        "attention.head_count": s.heads,
        "attention.head_count_kv": 1,
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
        "attention.q_lora_rank": s.query_rank,
        "attention.output_lora_rank": s.group_rank,
        "attention.output_group_count": s.groups,
        "attention.sliding_window": s.window,
        "attention.indexer.head_count": s.index_heads,
        "attention.indexer.key_length": s.index_head_dim,
        "attention.indexer.top_k": s.index_topk,
        "rope.dimension_count": s.rope_dim,
        "rope.scaling.original_context_length": s.yarn_context,
        "expert_count": s.experts,
        "expert_used_count": s.experts_used,
        "expert_shared_count": 1,
        "expert_feed_forward_length": s.expert_width,
        "expert_gating_func": 4,
        "hash_layer_count": s.hash_layers,
        "hyper_connection.count": 4,
        "hyper_connection.sinkhorn_iterations": 20,
    }


def float_keys(s: Shape) -> dict[str, float]:
    return {
        "attention.compress_rope_freq_base": 160000.0,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.scaling.factor": s.yarn_factor,
        "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
        "expert_weights_scale": s.expert_scale,
        "hyper_connection.epsilon": 1e-6,
    }


def add_model_keys(writer: gguf.GGUFWriter, s: Shape) -> None:
    for name, value in integer_keys(s).items():
        writer.add_uint32(f"deepseek4.{name}", value)
    for name, number in float_keys(s).items():
        writer.add_float32(f"deepseek4.{name}", number)
    writer.add_string("deepseek4.rope.scaling.type", "yarn")
    writer.add_bool("deepseek4.expert_weights_norm", True)
    writer.add_array("deepseek4.attention.compress_ratios", list(s.ratios))
    writer.add_array("deepseek4.swiglu_clamp_exp", [s.clamp] * s.layers)


def add_tokenizer_keys(writer: gguf.GGUFWriter, s: Shape) -> None:
    lender = read_metadata(oracle_file(s.tokens_of))
    for name in ("model", "pre"):
        writer.add_string(f"tokenizer.ggml.{name}", lender[f"tokenizer.ggml.{name}"])
    for name in ("tokens", "token_type", "merges"):
        writer.add_array(f"tokenizer.ggml.{name}", lender[f"tokenizer.ggml.{name}"])
    for name in ("bos_token_id", "eos_token_id", "padding_token_id"):
        writer.add_uint32(f"tokenizer.ggml.{name}", lender[f"tokenizer.ggml.{name}"])


def write_gguf(path: Path, name: str, weights: Arrays, add_keys: Callable[[gguf.GGUFWriter], None]) -> None:
    writer = gguf.GGUFWriter(path, "deepseek4")
    writer.add_name(name)
    add_keys(writer)
    for tensor, value in weights.items():
        writer.add_tensor(tensor, value.astype(np.int32 if "tid2eid" in tensor else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_packed_gguf(target: Path, name: str, weights: Arrays, add_keys: Callable[[gguf.GGUFWriter], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "model.gguf"
        write_gguf(plain, name, weights, add_keys)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.compress(plain.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


def write_files(name: str, s: Shape) -> None:
    def add_main_keys(writer: gguf.GGUFWriter) -> None:
        add_model_keys(writer, s)
        add_tokenizer_keys(writer, s)

    write_packed_gguf(GOLDEN / name / "tiny-f32.gguf.xz", name, main_weights(s), add_main_keys)
    if s.has_mtp:
        write_packed_gguf(GOLDEN / name / "tiny-mtp-f32.gguf.xz", f"{name} MTP", mtp_weights(s), lambda writer: None)


# ---- their references ------------------------------------------------------------------------------


def prompts_of(s: Shape) -> dict[str, Array]:
    """Random ids after BOS: shorter than any window, over two windows of 128, over several."""
    rng = np.random.default_rng([s.seed, 2])
    lengths = {"short": 10, "medium": 300, "long": 700}
    return {name: np.append(0, rng.integers(3, s.vocab, length - 1)) for name, length in lengths.items()}


def kept_positions(length: int) -> Array:
    """All of a short prompt; of others the first tokens, both sides of every window of 128, and every eleventh."""
    edges = {p for edge in range(128, length + 1, 128) for p in (edge - 2, edge - 1, edge)}
    kept = set(range(12)) | edges | set(range(0, length, 11)) | {length - 1}
    return np.array(sorted(p for p in kept if p < length))


def mtp_reference(model: Model, variant: str, prompts: Mapping[str, Array], kept: Mapping[str, Array]) -> Arrays:
    model = VARIANTS[variant](model)
    ids, positions = prompts["medium"], kept["medium"][kept["medium"] < len(prompts["medium"]) - 1]
    run, state, out = forward(model, ids), MtpState(), Arrays()
    logits = np.array([p.logits for p in mtp_forward(model, state, run, ids)])[positions]
    zeroed = [p.logits for p in mtp_forward(model, MtpState(), run, ids, zero_first_embedding=True)]
    out[f"{variant}_mtp_medium_logits"] = logits.astype(np.float32)
    out[f"{variant}_mtp_zeroed_medium_logits"] = np.array(zeroed, np.float32)[positions]
    out[f"{variant}_mtp_medium_noise"] = noise(model, ids, positions, logits, run=mtp_logits)
    out["mtp_medium_pos"] = positions.astype(np.int32)
    out[f"{variant}_mtp_router"] = np.array(state.trace.experts["mtp.0."], np.int16)
    out[f"{variant}_mtp_router_margin"] = np.array(state.trace.router_margin)
    out[f"{variant}_mtp_short_drafts"] = np.array(draft(model, prompts["short"], DRAFTED), np.int32)
    return out


def make_model(name: str) -> None:
    shape = SHAPES[name]
    write_files(name, shape)
    oracle_file.cache_clear()
    model = load_model(oracle_file(f"{name}/tiny-f32.gguf"))
    prompts = prompts_of(shape)
    kept = {prompt: kept_positions(len(ids)) for prompt, ids in prompts.items()}
    out: Arrays = {f"{prompt}_ids": ids.astype(np.int32) for prompt, ids in prompts.items()}
    out |= {f"{prompt}_pos": positions.astype(np.int32) for prompt, positions in kept.items()}
    for variant in VARIANTS:
        out |= reference(model, variant, prompts, kept)
        if shape.has_mtp:
            both = with_mtp(model, read_tensors(oracle_file(f"{name}/tiny-mtp-f32.gguf")))
            out |= mtp_reference(both, variant, prompts, kept)
    save(GOLDEN / name / "ref.npz", out)


def search(name: str, seeds: int) -> None:
    """Print, per seed, the smallest margins over all prompts and variants: comfortable ones make a steady reference."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            shape = replace(SHAPES[name], seed=seed)
            path = Path(folder) / f"{seed}.gguf"
            write_gguf(path, name, main_weights(shape), lambda writer, s=shape: add_model_keys(writer, s))
            model = load_model(path)
            runs = [forward(change(model), prompts_of(shape)["medium"]) for change in VARIANTS.values()]
            margins = np.array([run.choice_margins() for run in runs])
            spread = runs[0].logits.std()
            print(f"seed {seed}: router {margins[:, 0]} index {margins[:, 1]} logit std {spread:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make tests/golden/oracle/{packed.npz,tinyB,tinyC}.")
    parser.add_argument("what", nargs="+", help="packed, tinyB, tinyC, or: search MODEL")
    parser.add_argument("--seeds", type=int, default=8, help="how many seeds `search` tries")
    arguments = parser.parse_args()
    if arguments.what[0] == "search":
        search(arguments.what[1], arguments.seeds)
        return
    for what in arguments.what:
        if what == "packed":
            make_packed()
        else:
            make_model(what)


if __name__ == "__main__":
    main()
