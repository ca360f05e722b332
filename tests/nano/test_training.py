"""The trainer: parameters keep their names all the way into the engine, and a few steps teach something.

Needs torch (extra `train`) and, for what runs the network, a C++ compiler: the kernels are compiled once per checkout.
"""

import dataclasses
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("deepseek_recipe")

import torch

from nano.checkpoint import Checkpoint, read_checkpoint, save_release, save_run
from nano.curriculum.mixture import SHARES
from nano.documents import Encoder
from nano.evaluate import accepted, greedy
from nano.export import blended
from nano.network import Network, Rows, rope_tables
from nano.optimiser import ROUNDS, Optimiser, Rates, orthogonalised
from nano.parameters import MTP, Parameters, add_mtp, renew_compressors
from nano.places import PACKAGED, PACKAGED_DRAFT, ROOT, TOKENIZER
from nano.rows import RowSource
from nano.shape import Shape
from nano.train import Plan, evaluation_prompts, train
from whitedwarf.errors import UsageError
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.ops.select import make_ops

SHAPE = Shape()
TOY = Shape(hidden=64, query_rank=32, output_rank=32, heads=2, expert_width=32, experts=4, layers=4)
TOY = dataclasses.replace(TOY, compress_ratios=(0, 0, 4, 128))
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(TOKENIZER / "tokenizer.json")


@pytest.fixture(scope="module")
def fresh() -> Parameters:
    return add_mtp(SHAPE, Parameters.fresh(SHAPE, seed=1))


def some_ids(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(3, 4000, count).astype(np.int32)


def test_a_release_holds_what_went_in(fresh: Parameters, tmp_path: Path) -> None:
    state = fresh.release_state()
    save_release(tmp_path, SHAPE, state, dtype=torch.float32)
    back = Parameters.from_release(SHAPE, read_checkpoint(tmp_path).state)
    assert back.values.keys() == fresh.values.keys()
    assert all(torch.equal(back.values[name], value) for name, value in fresh.values.items())
    assert all(torch.equal(back.tables[name], table) for name, table in fresh.tables.items())


def test_a_run_goes_on_from_what_it_saved(fresh: Parameters, tmp_path: Path) -> None:
    state = fresh.release_state()
    save_run(tmp_path / "live.pt", Checkpoint(state, 5, 600, {"first": {"norm.weight": torch.ones(256)}}))
    back = read_checkpoint(tmp_path / "live.pt")
    assert (back.steps, back.tokens) == (5, 600)
    assert torch.equal(back.optimiser["first"]["norm.weight"], torch.ones(256))
    assert not (tmp_path / "live.part").exists()


def test_anything_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a release folder"):
        read_checkpoint(tmp_path / "model.onnx")


def test_the_packaged_model_can_be_trained_on(fresh: Parameters) -> None:
    parameters = Parameters.from_release(SHAPE, read_checkpoint(PACKAGED).state)
    assert {name: value.shape for name, value in parameters.values.items()} == {
        name: value.shape for name, value in fresh.values.items()
    }
    assert parameters.tables.keys() == fresh.tables.keys()


def test_an_export_converts_with_every_tensor_in_its_place(fresh: Parameters, tmp_path: Path) -> None:
    save_release(tmp_path / "release", SHAPE, fresh.release_state())
    convert(tmp_path / "release", tmp_path / "model.gguf", ConvertOptions(outtype="f32"))
    with open_gguf(tmp_path / "model.gguf") as gguf:
        loaded = load_model(gguf, make_ops("cpu", threads=1))
        assert loaded.mtp is not None
    back = read_checkpoint(tmp_path / "model.gguf").state
    assert back.keys() == fresh.release_state().keys()


def test_the_mtp_block_begins_as_parts_of_the_trunk(fresh: Parameters) -> None:
    assert torch.equal(fresh.values[MTP + "attn.wkv.weight"], fresh.values["layers.1.attn.wkv.weight"])
    assert torch.equal(fresh.values[MTP + "ffn.experts.w2"], fresh.values["layers.5.ffn.experts.w2"])
    assert torch.equal(fresh.values[MTP + "norm.weight"], fresh.values["norm.weight"])


def test_rows_hold_whole_documents_and_what_follows_each_place(encoder: Encoder) -> None:
    source = RowSource(encoder, SHARES, 1024, seed=2, forbidden_prompts=evaluation_prompts())
    for _ in range(5):
        row = source.row()
        assert row.ids.shape == row.starts.shape == (1, 1024)
        assert torch.equal(row.targets, row.ids[0][row.places + 1])
        assert (row.starts[0] <= torch.arange(1024)).all()
        assert (row.starts[0] % 4 == 0)[:-4].all()
        inside = row.weights > 0
        assert (row.starts[0][row.places] == row.starts[0][row.places + 1])[inside].all()
        earlier, weights = row.drafts()
        assert (earlier[weights > 0] + 2 == row.places[weights > 0] + 1).all()


def test_orthogonalising_keeps_the_singular_vectors_and_applies_the_polynomials_to_the_values() -> None:
    matrices = torch.randn(3, 64, 32, generator=torch.Generator().manual_seed(1))
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    values = values / (matrices.norm(dim=(-2, -1))[:, None] * 1.01)
    for linear, cubic, quintic in ROUNDS:
        values = linear * values + cubic * values**3 + quintic * values**5
    exact = left @ torch.diag_embed(values) @ right
    made = orthogonalised(matrices)
    assert ((made - exact).norm() / exact.norm()) < 0.1  # four rounds in bfloat16, the first of which multiplies by 8
    assert (made.pow(2).sum() / (3 * 32)).item() == pytest.approx(1.0, abs=0.3)  # near a rotation


def test_the_compressed_rope_is_the_engine_s() -> None:
    from whitedwarf.gguf.hparams import from_metadata
    from whitedwarf.model.rope import Rope

    with open_gguf(PACKAGED) as gguf:
        hp = from_metadata(gguf.metadata, gguf.tensors)
    for rope, tables in (
        (Rope.plain(hp), rope_tables(500, SHAPE.rope_theta, None)),
        (Rope.compressed(hp), rope_tables(500, SHAPE.compress_rope_theta, SHAPE.rope_factor)),
    ):
        turns = rope.turns(np.arange(500, dtype=np.int32))
        for part, table in enumerate(tables):
            assert np.abs(turns[..., part] - table.numpy()).max() < 1e-4


@needs_compiler
@pytest.mark.slow
def test_the_network_and_the_engine_agree(fresh: Parameters, tmp_path: Path) -> None:
    save_release(tmp_path / "release", SHAPE, fresh.release_state())
    convert(tmp_path / "release", tmp_path / "model.gguf", ConvertOptions(outtype="f32"))
    kept = Parameters.from_release(SHAPE, read_checkpoint(tmp_path / "release").state)
    ids = some_ids(384)
    rows = Rows(torch.from_numpy(ids[None].astype(np.int64)), torch.zeros(1, 384, dtype=torch.int32))
    with torch.no_grad():
        output = Network(SHAPE, kept, 384).forward(rows, torch.arange(384), is_sparse=True)
        drafts = Network(SHAPE, kept, 384).draft(rows, output.streams, torch.arange(380))
    with open_gguf(tmp_path / "model.gguf") as gguf:
        loaded = load_model(gguf, make_ops("cpu", threads=1, quality=True), "f32")
        model, draft = loaded.transformer, loaded.mtp
        logits = model.forward([Span(model.new_state(), ids, "all")])[0]
        streams = output.streams.numpy()[:380]
        engine_drafts = draft.forward([Span(draft.new_state(), ids[1:381])], streams).logits
        answer = greedy(model, ids[:20])
        right, guesses = accepted(draft, ids[:20], answer, np.resize(streams, (20 + len(answer), *streams.shape[1:])))
    assert np.corrcoef(logits.ravel(), output.logits.numpy().ravel())[0, 1] > 0.995
    assert np.corrcoef(engine_drafts.ravel(), drafts.numpy().ravel())[0, 1] > 0.995
    assert 0 <= right <= guesses == len(answer) - 1


@needs_compiler
@pytest.mark.slow
def test_a_few_steps_on_a_toy_lower_the_loss() -> None:
    parameters = add_mtp(TOY, Parameters.fresh(TOY, seed=5))
    values = {name: value.detach() for name, value in parameters.values.items()}
    optimiser = Optimiser(values, parameters.matrices(), mean_memory=0.9)
    network = Network(TOY, parameters, 256)
    ids = torch.from_numpy(np.tile(some_ids(64), 4)[None].astype(np.int64))
    rows, places = Rows(ids, torch.zeros(1, 256, dtype=torch.int32)), torch.arange(64, 253)
    losses = []
    for number in range(1, 25):
        output = network.forward(rows, places, learns_index=True)
        drafts = network.draft(rows, output.streams, places)
        loss = torch.nn.functional.cross_entropy(output.logits, ids[0][places + 1])
        drafted = torch.nn.functional.cross_entropy(drafts, ids[0][places + 2])
        losses.append((loss.item(), drafted.item()))
        (loss + drafted + output.index_loss).backward()
        optimiser.step({name: value.grad for name, value in parameters.values.items()}, number, Rates(0.03, 0.01))
        for value in parameters.values.values():
            value.grad = None
    assert losses[-1][0] < losses[0][0] / 2
    assert losses[-1][1] < losses[0][1] / 2


@needs_compiler
@pytest.mark.slow
def test_processes_train_together_and_leave_a_run_to_go_on_from(tmp_path: Path) -> None:
    plan = Plan(
        seconds=4.0,
        rates=Rates(0.01, 0.001),
        cooling=0.5,
        warm_up=2,
        rows_per_step=2,
        row_length=256,
        long_row_length=512,
        long_rows=0.2,
        longest_text=10.0,
        growth=0.2,
        index_share=0.5,
        learns_draft=True,
        learns_trunk=True,
        renews_compressors=True,
        mean_memory=0.9,
        save_every_s=60.0,
        seed=1,
        shares={"plain": 1.0, "needle session": 1.0},
        out=tmp_path,
    )
    train(plan, TOY, Checkpoint(Parameters.fresh(TOY, seed=1).release_state()), 2, evaluation_prompts())
    live, mean = (read_checkpoint(tmp_path / f"{name}.pt") for name in ("live", "mean"))
    assert live.steps == mean.steps >= 1
    assert live.tokens >= 512
    assert mean.optimiser is None
    assert Parameters.from_release(TOY, mean.state).has_mtp
    assert all(torch.isfinite(value).all() for value in live.state.values())


def test_renewed_compressors_are_means_of_the_window_s_rows() -> None:
    parameters = Parameters.fresh(SHAPE, seed=1)
    before = parameters.release_state()
    renew_compressors(SHAPE, parameters)
    after = parameters.release_state()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.split(".attn.")[0] for name in changed} == {"layers.2", "layers.4"}
    assert all(".attn.compressor." in name for name in changed)
    at = "layers.4.attn."
    assert torch.equal(after[at + "compressor.wkv.weight"], after[at + "wkv.weight"].repeat(2, 1))
    assert not after[at + "compressor.wgate.weight"].any()


def test_the_packaged_files_are_what_the_script_makes_of_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nothing is lost between the package and a training run, whichever of the two comes first."""
    state = read_checkpoint(PACKAGED).state
    save_release(tmp_path / "release", SHAPE, state, dtype=torch.float32)
    target = tmp_path / "nano.gguf"
    words = ["make_nano.py", "--source", str(tmp_path / "release"), "--target", str(target)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / "scripts" / "make_nano.py"), run_name="__main__")
    assert stopped.value.code == 0
    assert target.read_bytes() == PACKAGED.read_bytes()
    assert target.with_name("nano-mtp.gguf").read_bytes() == PACKAGED_DRAFT.read_bytes()


def test_a_blend_goes_a_share_of_the_way_and_keeps_what_is_new() -> None:
    start = {"a": torch.zeros(2), "table": torch.tensor([1, 2])}
    end = {"a": torch.tensor([1.0, 3.0]), "table": torch.tensor([3, 4]), "new": torch.ones(1)}
    made = blended(start, end, 0.5)
    assert made["a"].tolist() == [0.5, 1.5]
    assert made["table"].tolist() == [3, 4]
    assert made["new"].tolist() == [1.0]
