"""llama.cpp's own importance matrix of nano: read, and agreed with over the same tokens."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from oracle.fixtures import ROOT
from whitedwarf.calibration.collect import run_prompt
from whitedwarf.calibration.importance import make_imatrix
from whitedwarf.gguf.imatrix import Imatrix, read_imatrix
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.loading import load_model
from whitedwarf.ops.collecting import CollectingOps
from whitedwarf.ops.select import make_ops
from whitedwarf.prompt.tokenizer import Tokenizer

GOLDEN = ROOT / "tests" / "golden" / "imatrix" / "llama-imatrix-nano.gguf.xz"
TEXT = GOLDEN.with_name("llama-imatrix-nano.txt")  # what it read
NANO_F16 = ROOT.parent / "shared" / "nano" / "nano-f16.gguf"
NUM_TOKENS = 512


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Imatrix:
    path = tmp_path_factory.mktemp("llama") / "imatrix.gguf"
    path.write_bytes(lzma.decompress(GOLDEN.read_bytes()))
    return read_imatrix(path)


def test_their_file_is_read(theirs: Imatrix) -> None:
    assert (theirs.chunks, theirs.chunk_size, len(theirs.names)) == (1, NUM_TOKENS, 100)
    assert theirs.dataset.endswith(".txt")
    gate = theirs.entries["blk.0.ffn_gate_exps.weight"]
    assert gate.sums.shape == (8, 256)
    assert gate.counts.sum() == NUM_TOKENS * 2
    weights = theirs.weights("blk.0.ffn_down_exps.weight", 256, 7, 8)
    assert weights is not None
    assert (weights > 0).all()
    assert theirs.weights("blk.0.attn_output_a.weight", 1024) is not None


@pytest.mark.shared
@pytest.mark.skipif(not NANO_F16.exists(), reason="needs the workshop's shared folder")
def test_ours_agrees_over_the_same_tokens(theirs: Imatrix) -> None:
    """But for down, where llama.cpp weighs after the product and we, like the original, before it."""
    ours = collected(NANO_F16)
    compared = 0
    for name, entry in ours.entries.items():
        other = theirs.entries[name]
        if name.endswith(("ffn_down_exps.weight", "attn_output_a.weight")):
            continue
        flips = np.abs(other.counts - entry.counts).max()
        assert flips <= 1, name  # a router's tie
        bound = 5e-4 if flips == 0 else 2e-2  # they keep KV rows in f16; 2.3e-4 at most was measured
        assert np.abs(other.sums - entry.sums).max() <= bound * entry.sums.max(), name
        compared += 1
    assert compared > 60


@pytest.mark.shared
@pytest.mark.skipif(not NANO_F16.exists(), reason="needs the workshop's shared folder")
def test_groups_of_their_attention_output_are_ours_on_average(theirs: Imatrix) -> None:
    ours = collected(NANO_F16)
    for layer in range(6):
        name = f"blk.{layer}.attn_output_a.weight"
        mine, other = ours.weights(name, 1024), theirs.weights(name, 1024)
        assert mine is not None
        assert other is not None
        assert np.abs(mine - other).max() <= 2e-3 * mine.max()


def collected(path: Path) -> Imatrix:
    collector, ops = CollectingOps.around(make_ops("cpu", 2, quality=True), is_dense=True, threads=2)
    with open_gguf(path) as gguf:
        model = load_model(gguf, ops, "f32").transformer
        ids = Tokenizer.from_metadata(gguf.metadata).encode(TEXT.read_text(encoding="utf-8"))
        run_prompt(model, collector, ids[:NUM_TOKENS], NUM_TOKENS)
        return make_imatrix(collector.moments, frozenset(map(canonical_name, gguf.tensors)), "text.txt", 1, NUM_TOKENS)
