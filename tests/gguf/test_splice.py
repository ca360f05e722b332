"""Mixed expert layers: only the chosen experts change, and files that do not belong together are refused."""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest

import gguf
from fakes.rewritten import rewritten
from whitedwarf.errors import NotDeepSeekV4Error, UsageError
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.rewriting import rewrite
from whitedwarf.gguf.splice import EXPERTS, Splice, plan_splice
from whitedwarf.gguf.splitting import plan_split_by_count
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.types import GgmlType, ValueType

LAYERS = 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "base.gguf"
    synthesise(path, "tiny", LAYERS, quant="q2")
    return path


@pytest.fixture(scope="module")
def donor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("donor") / "donor.gguf"
    synthesise(path, "tiny", LAYERS, quant="q4")
    return path


def spliced(base: Path, donor: Path, target: Path, layers: Collection[int]) -> Splice:
    with open_gguf(base) as ours, open_gguf(donor) as theirs:
        splice = plan_splice(ours, theirs, target, layers)
        rewrite(splice.rewriting)
    return splice


def test_only_the_experts_of_the_chosen_layers_change(base: Path, donor: Path, tmp_path: Path) -> None:
    spliced(base, donor, tmp_path / "mixed.gguf", {0, 3})
    wanted = {f"blk.{layer}.{part}" for layer in (0, 3) for part in EXPERTS}
    ours, theirs, mixed = (gguf.GGUFReader(path) for path in (base, donor, tmp_path / "mixed.gguf"))
    given = {tensor.name: tensor for tensor in theirs.tensors}
    assert [tensor.name for tensor in mixed.tensors] == [tensor.name for tensor in ours.tensors]
    for before, after in zip(ours.tensors, mixed.tensors, strict=True):
        source = given[before.name] if before.name in wanted else before
        assert after.tensor_type == source.tensor_type
        assert after.shape.tolist() == source.shape.tolist()
        assert after.data.tobytes() == source.data.tobytes()
    with open_gguf(base) as left, open_gguf(tmp_path / "mixed.gguf") as right:
        assert repr(left.typed_metadata()) == repr(right.typed_metadata())


def test_it_says_what_changes(base: Path, donor: Path, tmp_path: Path) -> None:
    splice = spliced(base, donor, tmp_path / "mixed.gguf", {4, 1})
    assert [str(change) for change in splice.changes] == [
        f"layer {layer}: IQ2_XXS IQ2_XXS Q2_K -> Q4_K Q4_K Q4_K (gate, up, down)" for layer in (1, 4)
    ]


def test_the_result_equals_a_file_made_mixed_in_the_first_place(base: Path, donor: Path, tmp_path: Path) -> None:
    spliced(base, donor, tmp_path / "there.gguf", range(LAYERS))
    spliced(tmp_path / "there.gguf", base, tmp_path / "back.gguf", range(LAYERS))
    assert (tmp_path / "back.gguf").read_bytes() == base.read_bytes()


def test_base_and_donor_may_be_split_or_of_the_older_dialect(base: Path, donor: Path, tmp_path: Path) -> None:
    def old(name: str) -> str:
        return name.replace("attn_q_a_norm", "attn_q_norm").replace("output_hc_", "hc_head_")

    with open_gguf(base) as model:
        shards = rewrite(plan_split_by_count(model, tmp_path / "parts.gguf", 40))
    spliced(base, donor, tmp_path / "plain.gguf", {2})
    spliced(shards[1], rewritten(donor, tmp_path / "old.gguf", rename=old), tmp_path / "mixed.gguf", {2})
    assert (tmp_path / "mixed.gguf").read_bytes() == (tmp_path / "plain.gguf").read_bytes()


def test_other_routers_are_a_note(base: Path, donor: Path, tmp_path: Path) -> None:
    with open_gguf(base) as model:
        name = "blk.1.ffn_gate_inp.weight"
        info, data = model.tensors[name], model.data(name)
        shifted = np.roll(data, data.nbytes // 2)
        again = {name: (info.type, info.shape, data) for name, info, data in [(name, info, data)]}
    same = rewritten(donor, tmp_path / "same.gguf", added=again)
    other = rewritten(donor, tmp_path / "other.gguf", added={name: (info.type, info.shape, shifted)})
    assert spliced(base, same, tmp_path / "a.gguf", {1}).notes == ()
    (note,) = spliced(base, other, tmp_path / "b.gguf", {1}).notes
    assert "the routers of layers 1 differ" in note


def refused(base: Path, donor: Path, folder: Path, layers: Collection[int], *texts: str) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(UsageError) as caught:
        spliced(base, donor, folder / "out.gguf", layers)
    for text in texts:
        assert text in str(caught.value)
    assert sorted(folder.iterdir()) == before


def test_a_layer_that_does_not_exist_is_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    refused(base, donor, tmp_path, {1, 5}, "base.gguf: there is no layer 5; expected layers from 0 to 4")
    refused(base, donor, tmp_path, (), "no layers to splice")


def test_a_donor_without_the_layer_is_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    short = rewritten(donor, tmp_path / "short.gguf", rename=lambda name: None if name.startswith("blk.4.") else name)
    refused(base, short, tmp_path, {3, 4}, "short.gguf: has no blk.4.ffn_down_exps.weight, blk.4.ffn_gate_exps.weight")
    refused(base, short, tmp_path, {3}, "short.gguf: has no blk.4.", "more tensors", "two quantisations of one model")


def test_a_donor_of_another_shape_is_refused(base: Path, tmp_path: Path) -> None:
    synthesise(tmp_path / "few.gguf", "tiny", LAYERS, experts=4, quant="q4")
    refused(base, tmp_path / "few.gguf", tmp_path, {1}, "another model than", "num_experts is 4, in the base 8")


def test_a_tensor_of_another_shape_is_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    name = "output_norm.weight"
    odd = rewritten(donor, tmp_path / "odd.gguf", added={name: (GgmlType.F32, (2,), np.zeros(8, np.uint8))})
    refused(base, odd, tmp_path, {1}, f"tensor {name!r} has shape [2]")


def with_key(key: str, change: Callable[[object], object]) -> Callable[[TypedMetadata], TypedMetadata]:
    return lambda values: {**values, key: (values[key][0], change(values[key][1]))}  # type: ignore[dict-item]


def test_a_donor_with_another_tokenizer_is_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    def swapped(tokens: object) -> object:
        assert isinstance(tokens, list)
        return [*tokens[:-2], tokens[-1], tokens[-2]]

    key = "tokenizer.ggml.tokens"
    other = rewritten(donor, tmp_path / "other.gguf", metadata=with_key(key, swapped))
    refused(
        base,
        other,
        tmp_path,
        {1},
        "other.gguf: another tokenizer than",
        key,
        "a list of 512",
        "the first to differ is number 510",
    )
    none = rewritten(
        donor, tmp_path / "none.gguf", metadata=lambda values: {k: v for k, v in values.items() if k != key}
    )
    refused(base, none, tmp_path, {1}, "another tokenizer than", "is missing, in the base a list of 512")


def test_a_donor_with_another_hyperparameter_is_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    key = "deepseek4.expert_weights_scale"
    other = rewritten(donor, tmp_path / "other.gguf", metadata=with_key(key, lambda value: 2.5))
    refused(base, other, tmp_path, {1}, "expert_weights_scale is 2.5, in the base 1.5")


def test_files_of_other_models_are_refused(base: Path, donor: Path, tmp_path: Path) -> None:
    other = rewritten(donor, tmp_path / "llama.gguf", metadata=with_key("general.architecture", lambda value: "llama"))
    for files in ((base, other), (other, base)):
        with pytest.raises(NotDeepSeekV4Error, match=r"llama.gguf: general.architecture: found 'llama'"):
            spliced(*files, tmp_path / "out.gguf", {1})


def test_what_one_models_files_may_say_differently_is_no_obstacle(base: Path, donor: Path, tmp_path: Path) -> None:
    def respelt(values: TypedMetadata) -> TypedMetadata:
        limits = np.full(LAYERS + 1, 10, np.float32)
        return {
            **values,
            "deepseek4.context_length": (ValueType.UINT32, 4096),
            "deepseek4.swiglu_clamp_exp": (ValueType.ARRAY, limits),
            "tokenizer.ggml.pre": (ValueType.STRING, "deepseek-v3"),
        }

    other = rewritten(donor, tmp_path / "other.gguf", metadata=respelt)
    spliced(base, other, tmp_path / "a.gguf", {1})
    spliced(base, donor, tmp_path / "b.gguf", {1})
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def test_one_file_is_not_base_and_donor(base: Path, tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(base)
    refused(base, tmp_path / "link.gguf", tmp_path, {1}, "the base and the donor at once")


def test_the_output_may_be_neither(base: Path, donor: Path, tmp_path: Path) -> None:
    copies = [tmp_path / "b.gguf", tmp_path / "d.gguf"]
    for path, source in zip(copies, (base, donor), strict=True):
        path.write_bytes(source.read_bytes())
    for path in copies:
        with pytest.raises(UsageError, match="is the file being read"):
            spliced(copies[0], copies[1], path, {1})
        assert copies[0].read_bytes() == base.read_bytes()


def test_a_block_of_drafts_in_one_of_them_does_not_matter(base: Path, donor: Path, tmp_path: Path) -> None:
    extra = {"mtp.0.norm.weight": (GgmlType.F32, (2,), np.zeros(8, np.uint8))}
    more = rewritten(donor, tmp_path / "more.gguf", added=extra)
    spliced(base, more, tmp_path / "a.gguf", {1})
    spliced(more, base, tmp_path / "b.gguf", {1})
    with open_gguf(tmp_path / "a.gguf") as a, open_gguf(tmp_path / "b.gguf") as b:
        assert [len(model.tensors) for model in (a, b)] == [len(b.tensors) - 1, len(b.tensors)]
