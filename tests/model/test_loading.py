"""From files of every dialect to the same model, and MTP blocks from inside and beside the main file."""

import re
from pathlib import Path

import numpy as np
import pytest

from fakes.resident import needs_smaps, resident_kib
from fakes.rewritten import random_tensors, rewritten
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.census import mtp_tensors
from whitedwarf.gguf.codecs import encode
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import Dialect, synthesise
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.base import Logits, Span
from whitedwarf.model.loading import LoadedModel, load_model, load_mtp
from whitedwarf.ops.cpu import CpuOps

IDS = np.random.default_rng(0).integers(0, 500, 150).astype(np.int32)  # past the first choice of the indexer
COPIED_IN = ("token_embd.weight", "output.weight", "output_norm.weight")
MISSING_IN_OLD_FILES = {
    "attention.output_lora_rank",
    "attention.output_group_count",
    "attention.compress_rope_freq_base",
    "attention.compress_ratios",
    "hash_layer_count",
    "hyper_connection.count",
    "hyper_connection.sinkhorn_iterations",
    "hyper_connection.epsilon",
    "expert_gating_func",
    "swiglu_clamp_shexp",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loading") / "tiny.gguf"
    synthesise(path, "tiny", seed=1)
    return path


def load(path: Path) -> LoadedModel:
    return load_model(open_gguf(path), CpuOps(threads=1))


def logits(path: Path) -> Logits:
    model = load(path).transformer
    return model.forward([Span(model.new_state(), IDS, "all")])[0]


def old_name(name: str) -> str:
    """The older community dialect (model.md 4.6)."""
    if name.startswith("output_hc_"):
        return name.replace("output_hc_", "hc_head_").removesuffix(".weight")
    name = re.sub(r"attn_kv\.weight$", "attn_kv_latent.weight", name)
    return name.replace("attn_compressor_", "attn_compress_").replace("indexer_compressor_", "indexer.compress_")


def old_metadata(values: TypedMetadata) -> TypedMetadata:
    return {key: value for key, value in values.items() if key.removeprefix("deepseek4.") not in MISSING_IN_OLD_FILES}


def test_the_older_dialect_gives_the_same_bits(tiny: Path, tmp_path: Path) -> None:
    old = rewritten(tiny, tmp_path / "old.gguf", rename=old_name, metadata=old_metadata)
    with open_gguf(old) as gguf:
        assert {"hc_head_fn", "blk.0.attn_kv_latent.weight", "blk.2.indexer.compress_ape.weight"} <= gguf.tensors.keys()
    assert (logits(old) == logits(tiny)).all()


@pytest.mark.parametrize(
    ("quant", "split", "dialect"), [("mxfp4", 1, "llama.cpp"), ("q2-q4", 3, "ds4"), ("q2-q4", 2, "llama.cpp")]
)
def test_other_types_and_splits_load_and_run(tmp_path: Path, quant: str, split: int, dialect: Dialect) -> None:
    synthesise(tmp_path / "m.gguf", "tiny", quant=quant, split=split, dialect=dialect)
    got = [logits(path) for path in sorted(tmp_path.glob("*.gguf"))]  # any shard stands for the model
    assert len(got) == split
    assert np.isfinite(got[0]).all()
    assert all((other == got[0]).all() for other in got)


@needs_smaps
def test_only_the_weights_that_a_token_needs_come_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    synthesise(path, "tiny", layers=4, experts=128, quant="q8")
    size_kib = path.stat().st_size >> 10
    with open_gguf(path) as gguf:
        model = load_model(gguf, CpuOps(threads=1)).transformer
        loaded_kib = resident_kib(path)
        model.forward([Span(model.new_state(), IDS[:1])])
        used_kib = resident_kib(path)
    assert size_kib > 100_000
    assert loaded_kib < size_kib // 20
    assert loaded_kib < used_kib < size_kib // 5  # 2 of 128 experts, and everything dense


def test_an_mtp_block_inside_or_beside_the_main_file_is_the_same_block(tiny: Path, tmp_path: Path) -> None:
    block = random_tensors(mtp_tensors(model_shape("tiny")))
    inside = load(rewritten(tiny, tmp_path / "both.gguf", added=block))
    beside_path = rewritten(tiny, tmp_path / "mtp.gguf", rename=lambda _: None, metadata=lambda _: {}, added=block)
    beside = load_mtp(open_gguf(beside_path), inside.transformer)
    assert inside.mtp is not None
    assert load(tiny).mtp is None
    streams = np.random.default_rng(1).standard_normal((len(IDS), 4, 256), np.float32)
    first, second = (mtp.forward([Span(mtp.new_state(), IDS)], streams).logits for mtp in (inside.mtp, beside))
    assert np.isfinite(first).all()
    assert (first == second).all()


def test_llama_cpps_mtp_file_holds_the_same_block(tiny: Path, tmp_path: Path) -> None:
    block = random_tensors(mtp_tensors(model_shape("tiny")))
    values = {name: np.frombuffer(data, np.float32).reshape(shape) for name, (_, shape, data) in block.items()}
    quantised = {
        name: (GgmlType.Q8_0, values[name].shape, encode(values[name], GgmlType.Q8_0))
        for name in ("mtp.0.e_proj.weight", "mtp.0.h_proj.weight")
    }
    both = np.concatenate([values[name] for name in quantised], axis=1)
    theirs = {nextn_name(name): added for name, added in block.items() if name not in quantised} | {
        "blk.6.nextn.eh_proj.weight": (GgmlType.Q8_0, both.shape, encode(both, GgmlType.Q8_0)),
        "blk.6.nextn.embed_tokens.weight": block["mtp.0.e_proj.weight"],
    }
    main = load(tiny).transformer
    files = {
        "classic": rewritten(tiny, tmp_path / "mtp.gguf", rename=lambda _: None, added=block | quantised),
        "nextn": rewritten(
            tiny, tmp_path / "nextn.gguf", rename=lambda name: name if name in COPIED_IN else None, added=theirs
        ),
    }
    streams = np.random.default_rng(1).standard_normal((len(IDS), 4, 256), np.float32)
    classic, nextn = (load_mtp(open_gguf(path), main) for path in files.values())
    first, second = (mtp.forward([Span(mtp.new_state(), IDS)], streams).logits for mtp in (classic, nextn))
    assert (first == second).all()
    with pytest.raises(FileFormatError, match="holds only the MTP draft block"):
        load(files["nextn"])


def nextn_name(name: str) -> str:
    rest = name.removeprefix("mtp.0.")
    if rest.startswith("hc_head_"):
        return rest.replace("hc_head_", "output_hc_")
    renamed = {"enorm.weight": "nextn.enorm.weight", "hnorm.weight": "nextn.hnorm.weight"}
    return "blk.6." + (renamed | {"norm.weight": "nextn.shared_head_norm.weight"}).get(rest, rest)


def test_a_main_model_is_not_taken_for_an_mtp_file(tiny: Path) -> None:
    with pytest.raises(FileFormatError, match=r"tiny\.gguf: mtp\.0\.e_proj\.weight \[256, 256\] is missing"):
        load_mtp(open_gguf(tiny), load(tiny).transformer)
