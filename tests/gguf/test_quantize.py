"""Quantising a whole model: every tensor's bytes are the reference encoder's, whatever the source and the cuts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fakes.checkpoints import Checkpoint, floats, random_checkpoint, tiny_checkpoint
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf import quantize as quantize_module
from whitedwarf.gguf.checkpoint_source import CheckpointSource
from whitedwarf.gguf.codecs import decode, encode
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.encoder import ReferenceEncoder, make_encoder
from whitedwarf.gguf.imatrix import Imatrix, ImatrixEntry, ImatrixFormat, read_imatrix, write_imatrix
from whitedwarf.gguf.part_model import PartModel, digest_of
from whitedwarf.gguf.quantize import quantize
from whitedwarf.gguf.quantize_compare import compare
from whitedwarf.gguf.quantize_plan import NamedImportances, QuantizeOptions, QuantizePlan, plan_quantize
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.recipes import RECIPES, Family, RecipeName, TypeRules
from whitedwarf.gguf.safetensors_source import SafetensorsSource
from whitedwarf.gguf.tensor_source import GgufSource, ModelSource
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

Floats = NDArray[np.float32]

WIDE = {"hidden_size": 256, "moe_intermediate_size": 256, "num_hidden_layers": 2, "compress_ratios": [0, 4]}
WIDE |= {"num_hash_layers": 1}
GATE, DOWN = "blk.1.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"


@dataclass(frozen=True)
class FakeImportances:
    """Weights by tensor and expert, made of a seed; nothing for tensors that `missing` names the end of."""

    missing: str = "nothing"
    dataset: str = "corpus.txt"
    chunks: int = 7
    names: tuple[str, ...] = ("a", "b")
    asked: set[tuple[str, int | None]] = field(default_factory=set)

    def weights(self, tensor: str, columns: int, expert: int | None = None, experts: int = 1) -> Floats | None:
        self.asked.add((tensor, expert))
        if tensor.endswith(self.missing):
            return None
        seed = [*tensor.encode(), 0 if expert is None else expert + 1]
        return np.random.default_rng(seed).gamma(0.5, 1, columns).astype(np.float32)


def rules(recipe: RecipeName | None = None, **families: GgmlType) -> TypeRules:
    given: dict[Family, GgmlType] = {name.replace("_", "-"): type for name, type in families.items()}  # type: ignore[misc]
    return TypeRules(None if recipe is None else RECIPES[recipe], families=given)


def carried_out(plan: QuantizePlan, source: ModelSource) -> GgufFile:
    with PartModel(plan.layout, digest_of(plan.layout, source.paths)) as part:
        quantize(plan, part, make_encoder(2))
        part.publish()
    return open_gguf(plan.layout.path)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(**WIDE).write(tmp_path_factory.mktemp("wide") / "release")


@pytest.fixture(scope="module")
def wide_f32(wide: Path) -> Path:
    convert(wide, wide.parent / "f32.gguf", ConvertOptions(outtype="f32"))
    return wide.parent / "f32.gguf"


def from_checkpoint(folder: Path, target: Path, options: QuantizeOptions) -> GgufFile:
    with SafetensorsSource(folder) as opened:
        source = CheckpointSource(opened)
        return carried_out(plan_quantize(source, target, options), source)


def from_gguf(path: Path, target: Path, options: QuantizeOptions, template: Path | None = None) -> GgufFile:
    with open_gguf(path) as opened, GgufSource(opened) as source:
        pattern = None if template is None else open_gguf(template)
        return carried_out(plan_quantize(source, target, options, pattern), source)


def numbers(model: GgufFile, name: str) -> Floats:
    info = model.tensors[name]
    return decode(model.data(name), info.type, info.shape)


def expected(values: Floats, name: str, type: GgmlType, importances: FakeImportances | None) -> NDArray[np.uint8]:
    """The reference: expert by expert, with its own weights."""
    if importances is None or type not in (GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS):
        if type is GgmlType.IQ2_XXS:
            energy = np.stack([np.add.reduce(np.square(matrix), axis=0) for matrix in values])
            return encode(values, type, energy[:, None])
        return encode(values, type)
    weights = [importances.weights(name, values.shape[-1], expert, len(values)) for expert in range(len(values))]
    return np.concatenate([encode(matrix, type, own) for matrix, own in zip(values, weights, strict=True)])


@pytest.mark.parametrize("importances", [None, FakeImportances()], ids=["plain", "imatrix"])
@pytest.mark.parametrize("recipe", ["q2", "q4", "mxfp4"])
def test_every_tensor_is_what_the_reference_makes_of_it(
    recipe: RecipeName, importances: FakeImportances | None, wide: Path, wide_f32: Path, tmp_path: Path
) -> None:
    named = None if importances is None else NamedImportances(importances, Path("some/i.dat"))
    options = QuantizeOptions(rules(recipe), named)
    ours = from_checkpoint(wide, tmp_path / "a.gguf", options)
    exact = open_gguf(wide_f32)
    assert set(ours.tensors) == set(exact.tensors)
    for name, info in ours.tensors.items():
        if info.type is GgmlType.I32:
            np.testing.assert_array_equal(ours.data(name), exact.data(name))
            continue
        values = numbers(exact, name)
        np.testing.assert_array_equal(ours.data(name), expected(values, name, info.type, importances), err_msg=name)
    again = from_gguf(wide_f32, tmp_path / "b.gguf", options)
    for name in ours.tensors:
        np.testing.assert_array_equal(again.data(name), ours.data(name), err_msg=name)


def test_experts_of_a_released_checkpoint_become_mxfp4_bit_for_bit(tmp_path: Path) -> None:
    folder = tiny_checkpoint().write(tmp_path / "release")
    convert(folder, tmp_path / "native.gguf")
    ours = from_checkpoint(folder, tmp_path / "ours.gguf", QuantizeOptions(rules("mxfp4")))
    theirs = open_gguf(tmp_path / "native.gguf")
    for name in theirs.tensors:
        if name.endswith(("_exps.weight", "shexp.weight")) or ".attn_q_" in name.replace("indexer.attn_q_b", ""):
            assert ours.tensors[name].type is theirs.tensors[name].type, name
            np.testing.assert_array_equal(ours.data(name), theirs.data(name), err_msg=name)


def test_without_options_a_file_is_copied(wide_f32: Path, tmp_path: Path) -> None:
    ours, theirs = from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(rules())), open_gguf(wide_f32)
    for name, info in theirs.tensors.items():
        assert ours.tensors[name].type is info.type
        np.testing.assert_array_equal(ours.data(name), theirs.data(name))
    assert ours.value_types == theirs.value_types
    for key, value in theirs.metadata.items():
        np.testing.assert_array_equal(np.array(ours.metadata[key]), np.array(value), err_msg=key)


@pytest.mark.parametrize("rows", [128, 256])
def test_the_cuts_do_not_show(rows: int, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = QuantizeOptions(rules("q2", output=GgmlType.IQ2_XXS))
    whole = from_checkpoint(wide, tmp_path / "whole.gguf", options).paths[0].read_bytes()
    monkeypatch.setattr(quantize_module, "PIECE_ELEMENTS", rows * 256)
    assert from_checkpoint(wide, tmp_path / "cut.gguf", options).paths[0].read_bytes() == whole


class Interrupting:
    """An encoder that Ctrl+C hits at its n-th piece."""

    def __init__(self, after: int) -> None:
        self.left = after

    def encode(self, values: Floats, type: GgmlType, weights: Floats | None = None) -> NDArray[np.uint8]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return make_encoder(1).encode(values, type, weights)


@pytest.mark.parametrize("after", [0, 1, 7, 20, 45])
def test_an_interrupted_run_goes_on_to_the_same_bytes(after: int, wide: Path, tmp_path: Path) -> None:
    options = QuantizeOptions(rules("q2"))
    whole = from_checkpoint(wide, tmp_path / "whole.gguf", options).paths[0].read_bytes()
    with SafetensorsSource(wide) as opened:
        source = CheckpointSource(opened)
        plan = plan_quantize(source, tmp_path / "x.gguf", options)
        digest = digest_of(plan.layout, source.paths)
        with pytest.raises(KeyboardInterrupt), PartModel(plan.layout, digest) as part:
            quantize(plan, part, Interrupting(after))
        with PartModel(plan.layout, digest) as part:
            assert part.begun_bytes or not after
            counted = Interrupting(10**6)
            quantize(plan, part, counted)
            part.publish()
        pieces = [piece for tensor in plan.tensors for piece in quantize_module.pieces_of(tensor)]
    assert (tmp_path / "x.gguf").read_bytes() == whole
    assert 10**6 - counted.left == sum(piece.tensor.weighing != "copy" for piece in pieces) - after


def test_metadata_says_what_was_done(wide_f32: Path, tmp_path: Path) -> None:
    plain = from_gguf(wide_f32, tmp_path / "a.gguf", QuantizeOptions(rules("q2")))
    assert plain.metadata["general.file_type"] == 19
    assert not any(key.startswith("quantize.imatrix") for key in plain.metadata)
    named = NamedImportances(FakeImportances(), Path("some/i.dat"))
    ours = from_gguf(wide_f32, tmp_path / "b.gguf", QuantizeOptions(rules("q4"), named))
    assert ours.metadata["general.file_type"] == 14
    assert {key: value for key, value in ours.metadata.items() if key.startswith("quantize.imatrix")} == {
        "quantize.imatrix.file": "i.dat",
        "quantize.imatrix.entries_count": 2,
        "quantize.imatrix.dataset": "corpus.txt",
        "quantize.imatrix.chunks_count": 7,
    }
    without = from_gguf(tmp_path / "b.gguf", tmp_path / "c.gguf", QuantizeOptions(rules(output=GgmlType.F16)))
    assert not any(key.startswith("quantize.imatrix") for key in without.metadata)


def test_a_template_gives_names_order_types_and_metadata(wide: Path, wide_f32: Path, tmp_path: Path) -> None:
    template = from_gguf(wide_f32, tmp_path / "t.gguf", QuantizeOptions(rules("q2"))).paths[0]
    with SafetensorsSource(wide) as opened:
        source = CheckpointSource(opened)
        with open_gguf(template) as pattern:
            plan = plan_quantize(source, tmp_path / "o.gguf", QuantizeOptions(rules()), pattern)
            ours = carried_out(plan, source)
    assert ours.paths[0].read_bytes() == template.read_bytes()


def test_a_template_of_another_model_is_refused(wide: Path, wide_f32: Path, tmp_path: Path) -> None:
    other = random_checkpoint(**WIDE | {"moe_intermediate_size": 512}).write(tmp_path / "other")
    convert(other, tmp_path / "other.gguf")
    with pytest.raises(FileFormatError, match=r"expected .* as in the template: they are of different models"):
        from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(rules()), tmp_path / "other.gguf")


def test_tensors_that_the_template_lacks_are_left_out_and_told(wide_f32: Path, tmp_path: Path) -> None:
    folder = random_checkpoint(with_mtp=True, **WIDE).write(tmp_path / "mtp")
    with SafetensorsSource(folder) as opened, open_gguf(wide_f32) as pattern:
        plan = plan_quantize(CheckpointSource(opened), tmp_path / "x.gguf", QuantizeOptions(rules()), pattern)
        assert [tensor.name for tensor in plan.tensors] == list(pattern.tensors)
        assert any("32 tensors that the template does not have are left out" in note for note in plan.notes)
        wanting = plan_quantize(CheckpointSource(opened), tmp_path / "x.gguf", QuantizeOptions(rules()))
        assert len(wanting.tensors) == len(plan.tensors) + 32
    convert(folder, tmp_path / "mtp.gguf")
    with pytest.raises(FileFormatError, match="of the template missing"):
        from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(rules()), tmp_path / "mtp.gguf")


def test_few_bits_are_not_quantised_again_without_insisting(wide_f32: Path, tmp_path: Path) -> None:
    q4 = from_gguf(wide_f32, tmp_path / "q4.gguf", QuantizeOptions(rules("q4"))).paths[0]
    with pytest.raises(UsageError, match=r"is Q4_K already and would become .* \(6 such tensors\).*--allow-requantize"):
        from_gguf(q4, tmp_path / "x.gguf", QuantizeOptions(rules("q2")))
    ours = from_gguf(q4, tmp_path / "x.gguf", QuantizeOptions(rules("q2"), allow_requantize=True))
    values = numbers(open_gguf(q4), DOWN)
    np.testing.assert_array_equal(ours.data(DOWN), encode(values, GgmlType.Q2_K))
    wider = from_gguf(q4, tmp_path / "y.gguf", QuantizeOptions(rules(routed_w2=GgmlType.F16)))
    assert wider.tensors[DOWN].type is GgmlType.F16


def test_a_strict_imatrix_must_know_every_tensor(wide_f32: Path, tmp_path: Path) -> None:
    named = NamedImportances(FakeImportances(missing="ffn_down_exps.weight"), Path("i.dat"))
    with pytest.raises(FileFormatError, match=r"i.dat: no entry for blk.0.ffn_down_exps.weight, blk.1.ffn_down_exps"):
        from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(rules("q2"), named, is_strict=True))
    with open_gguf(wide_f32) as opened:
        plan = plan_quantize(GgufSource(opened), tmp_path / "x.gguf", QuantizeOptions(rules("q2"), named))
    weighing = {tensor.name: tensor.weighing for tensor in plan.tensors}
    assert (weighing[GATE], weighing[DOWN]) == ("imatrix", "none")
    assert plan.notes == (
        "i.dat has no entry for blk.0.ffn_down_exps.weight, blk.1.ffn_down_exps.weight: quantised without",
    )


@pytest.mark.parametrize("format", ["dat", "gguf"])
def test_a_real_imatrix_file_weighs_expert_by_expert(format: ImatrixFormat, wide_f32: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    drawn = {
        GATE: rng.gamma(0.5, 1, (6, 256)),
        DOWN: rng.gamma(0.5, 1, (6, 256)),
        "output.weight": rng.random((1, 256)),
    }
    entries = {
        name: ImatrixEntry(sums.astype(np.float32), np.ones(len(sums), np.int64)) for name, sums in drawn.items()
    }
    path = tmp_path / f"i.{format}"
    write_imatrix(path, Imatrix(entries, "corpus.txt", 3), format)
    options = QuantizeOptions(rules("q2", output=GgmlType.Q4_K), NamedImportances(read_imatrix(path), path))
    ours, exact = from_gguf(wide_f32, tmp_path / "x.gguf", options), open_gguf(wide_f32)
    for name, type in ((GATE, GgmlType.IQ2_XXS), (DOWN, GgmlType.Q2_K), ("output.weight", GgmlType.Q4_K)):
        values, weights = numbers(exact, name), drawn[name].astype(np.float32)
        spread = weights[:, None] if values.ndim > 2 else weights[0]
        np.testing.assert_array_equal(ours.data(name), encode(values, type, spread), err_msg=name)
    other = numbers(exact, "blk.0.ffn_down_exps.weight")
    np.testing.assert_array_equal(ours.data("blk.0.ffn_down_exps.weight"), encode(other, GgmlType.Q2_K))
    assert ours.metadata["quantize.imatrix.entries_count"] == 3


def test_an_imatrix_of_another_size_is_refused(wide_f32: Path, tmp_path: Path) -> None:
    wrong = Imatrix({GATE: ImatrixEntry.of_means(np.ones(100, np.float32))})
    with pytest.raises(FileFormatError, match="made for another model"):
        from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(rules("q2"), NamedImportances(wrong, Path("i"))))


def test_types_that_cannot_be_are_refused_by_name(wide_f32: Path, tmp_path: Path) -> None:
    def plan(**prefixes: GgmlType) -> None:
        table = tuple((prefix.replace("_DOT_", "."), type) for prefix, type in prefixes.items())
        from_gguf(wide_f32, tmp_path / "x.gguf", QuantizeOptions(TypeRules(prefixes=table)))

    with pytest.raises(UsageError, match=r"tid2eid.weight holds I32, which cannot become F16"):
        plan(blk_DOT_0_DOT_ffn_gate_tid2eid=GgmlType.F16)
    with pytest.raises(UsageError, match=r"no tensor's name begins with blk.99"):
        plan(blk_DOT_99=GgmlType.F16)
    with pytest.raises(UsageError, match="but Q4_K needs multiples of 256"):
        plan(blk_DOT_0_DOT_attn_norm=GgmlType.F16, blk_DOT_0_DOT_attn_sinks=GgmlType.Q4_K)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_are_told_with_tensor_and_expert(bad: float, tmp_path: Path) -> None:
    checkpoint = random_checkpoint(**WIDE)
    spoilt = np.full((256, 256), 0.5, np.float32)
    spoilt[3, 4] = bad
    checkpoint.tensors["layers.1.ffn.experts.2.w2.weight"] = floats(spoilt)
    folder = checkpoint.write(tmp_path / "release")
    with pytest.raises(FileFormatError, match=r"blk.1.ffn_down_exps.weight \(expert 2\) cannot be written as Q2_K"):
        from_checkpoint(folder, tmp_path / "x.gguf", QuantizeOptions(rules("q2")))


def test_shards_are_read_as_one_model(wide: Path, wide_f32: Path, tmp_path: Path) -> None:
    convert(wide, tmp_path / "s.gguf", ConvertOptions(outtype="f32", num_shards=3))
    first = next(tmp_path.glob("s-00001-of-*"))
    ours = from_gguf(first, tmp_path / "a.gguf", QuantizeOptions(rules("q2")))
    theirs = from_gguf(wide_f32, tmp_path / "b.gguf", QuantizeOptions(rules("q2")))
    for name in theirs.tensors:
        np.testing.assert_array_equal(ours.data(name), theirs.data(name))
    assert not any(key.startswith("split.") for key in ours.metadata)


def test_a_source_that_became_shorter_is_told(wide_f32: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(wide_f32.read_bytes())
    with open_gguf(path) as opened, GgufSource(opened) as source:
        plan = plan_quantize(source, tmp_path / "x.gguf", QuantizeOptions(rules("q2")))
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
        with pytest.raises(FileFormatError, match="became shorter"):
            carried_out(plan, source)


def compared(path: Path, theirs: Path, options: QuantizeOptions, name: str) -> Any:
    with (
        open_gguf(path) as opened,
        open_gguf(theirs) as other,
        GgufSource(opened) as source,
        GgufSource(other) as reference,
    ):
        plan = plan_quantize(source, path.with_name("none.gguf"), options)
        return compare(plan, reference, name, ReferenceEncoder())


def test_comparing_finds_the_first_block_that_differs(wide_f32: Path, tmp_path: Path) -> None:
    options = QuantizeOptions(rules("q2"))
    path = from_gguf(wide_f32, tmp_path / "a.gguf", options).paths[0]
    found = compared(wide_f32, path, options, DOWN)
    assert (found.is_equal, found.blocks, found.first) == (True, 6 * 256, None)
    assert found.error == found.their_error
    assert 0.2 < found.error < 0.4
    with open_gguf(path) as model:
        offset = model.tensors[DOWN].offset_bytes
    data = bytearray(path.read_bytes())
    data[offset + 84 * 1000 + 20] ^= 255
    path.write_bytes(data)
    found = compared(wide_f32, path, options, DOWN)
    assert (found.is_equal, found.differing_blocks) == (False, 1)
    assert (found.first.byte, found.first.block, found.first.expert, found.first.row) == (84020, 1000, 3, 232)
    assert found.error < found.their_error
    other = compared(wide_f32, path, QuantizeOptions(rules("q4")), DOWN)
    assert (other.is_equal, other.type, other.their_type) == (False, "Q4_K", "Q2_K")
    table = compared(wide_f32, path, options, "blk.0.ffn_gate_tid2eid.weight")
    assert (table.is_equal, table.error) == (True, None)


def test_comparing_what_is_not_there_is_refused(wide_f32: Path) -> None:
    with pytest.raises(UsageError, match=r"no tensor 'blk.9.x' in this model; expected a name like"):
        compared(wide_f32, wide_f32, QuantizeOptions(rules()), "blk.9.x")


def test_sources_of_other_dialects_keep_their_names(wide_f32: Path) -> None:
    tensors: Mapping[str, Any] = GgufSource(open_gguf(wide_f32)).tensors
    assert list(tensors) == list(open_gguf(wide_f32).tensors)


def test_mtp_blocks_come_along(tmp_path: Path) -> None:
    folder = random_checkpoint(with_mtp=True, **WIDE).write(tmp_path / "mtp")
    ours = from_checkpoint(folder, tmp_path / "x.gguf", QuantizeOptions(rules("q2")))
    assert ours.tensors["mtp.0.ffn_down_exps.weight"].type is GgmlType.Q4_K
    assert ours.tensors["mtp.0.e_proj.weight"].type is GgmlType.Q8_0
    assert isinstance(folder, Path)


def test_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint: Checkpoint = random_checkpoint(**WIDE)
    del checkpoint.tensors["layers.0.attn.wkv.weight"]
    with pytest.raises(FileFormatError, match=r"wkv.weight .* is missing"):
        from_checkpoint(checkpoint.write(tmp_path / "r"), tmp_path / "x.gguf", QuantizeOptions(rules("q2")))


def small_model(path: Path, *tensors: tuple[str, Floats]) -> Path:
    plan = [(name, GgmlType.F32, values.shape) for name, values in tensors]
    with GgufWriter(path, {"general.architecture": (ValueType.STRING, "deepseek4")}, plan) as writer:
        for name, values in tensors:
            writer.write(name, values)
    return path


def test_one_tensor_in_two_dialects_is_refused(tmp_path: Path) -> None:
    values = np.zeros((2, 256), np.float32)
    both = [(name, values) for name in ("blk.0.attn_kv.weight", "blk.0.attn_kv_latent.weight")]
    twice, once = small_model(tmp_path / "2.gguf", *both), small_model(tmp_path / "1.gguf", both[0])
    with open_gguf(twice) as model, pytest.raises(FileFormatError, match="the same tensor in two dialects"):
        GgufSource(model)
    with (
        open_gguf(once) as model,
        GgufSource(model) as source,
        open_gguf(twice) as template,
        pytest.raises(FileFormatError, match="twice, in two dialects"),
    ):
        plan_quantize(source, tmp_path / "o.gguf", QuantizeOptions(rules()), template)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e30])
def test_what_no_type_can_hold_is_told_as_what_it_is(tmp_path: Path, value: float) -> None:
    values = np.ones((2, 2, 256), np.float32)
    values[1, 1, 255] = value
    path = small_model(tmp_path / "m.gguf", (GATE, values))
    with open_gguf(path) as model, GgufSource(model) as source:
        options = QuantizeOptions(rules(routed_w1=GgmlType.IQ2_XXS))
        plan = plan_quantize(source, tmp_path / "o.gguf", options)
        with PartModel(plan.layout, "d") as part, pytest.raises(FileFormatError, match=r"expert 1\).*expected finite"):
            quantize(plan, part, make_encoder())
    assert not (tmp_path / "o.gguf").exists()
