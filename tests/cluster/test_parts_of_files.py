"""Files that hold only some layers, as PRO's halves do, and processes that load only some of a file's."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cluster.parts import SYNTHETIC, file_of, tokens, whole
from fakes.rewritten import rewritten
from oracle.engines import backend
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.base import Span
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.weights.checked import check_model, present_layers
from whitedwarf.weights.store import load_tensors
from whitedwarf.weights.tensors import Tensor


def layer_of(name: str) -> int:
    if name.startswith("blk."):
        return int(name.split(".")[1])
    return 0 if name.startswith("token_embd") else 5


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GgufFile, GgufFile]]:
    """Of nano: layers 0 to 2 with the embedding, 3 to 5 with the head."""
    folder, source = tmp_path_factory.mktemp("halves"), file_of("nano")
    first = rewritten(source, folder / "a.gguf", rename=lambda name: name if layer_of(name) < 3 else None)
    second = rewritten(source, folder / "b.gguf", rename=lambda name: name if layer_of(name) >= 3 else None)
    with open_gguf(first) as one, open_gguf(second) as two:
        yield one, two


def test_two_halves_are_the_model(halves: tuple[GgufFile, GgufFile]) -> None:
    assert [present_layers(half) for half in halves] == [range(3), range(3, 6)]
    ops, ids = backend("cpu", quality=False), tokens(150)
    first, second = (load_model(half, ops, held=present_layers(half)).transformer for half in halves)
    passed = first.forward_part([Span(first.new_state(), ids, "none")])
    (found,) = second.forward_part([Span(second.new_state(), ids, "all")], passed.streams).logits
    model = whole("nano")
    assert found.tobytes() == model.forward([Span(model.new_state(), ids, "all")])[0].tobytes()


def test_a_half_is_no_whole_model_and_has_not_the_other_halfs_layers(halves: tuple[GgufFile, GgufFile]) -> None:
    ops = backend("cpu", quality=False)
    for half in halves:
        with pytest.raises(FileFormatError, match="is missing"):
            load_model(half, ops)
    with pytest.raises(FileFormatError, match=r"blk\.3\..* is missing"):
        load_model(halves[0], ops, held=range(4))
    with pytest.raises(FileFormatError, match=r"token_embd\.weight .* is missing"):
        load_model(halves[1], ops, held=range(6))
    for layers in (range(3, 7), range(3, 3), range(-1, 3)):
        with pytest.raises(UsageError, match="model with layers 0 to 5"):
            check_model(halves[1], layers)


def test_a_whole_file_has_all_layers() -> None:
    with open_gguf(file_of(SYNTHETIC)) as gguf:
        assert present_layers(gguf) == range(whole(SYNTHETIC).config.hp.num_layers)


def test_tensors_of_another_model_are_refused_wherever_they_are(tmp_path: Path) -> None:
    wrong = {"blk.1.attn_norm.weight": (GgmlType.F32, (7,), np.zeros(28, np.uint8))}
    path = rewritten(file_of("nano"), tmp_path / "wrong.gguf", added=wrong)
    with open_gguf(path) as gguf, pytest.raises(FileFormatError, match=r"blk\.1\.attn_norm\.weight has shape \[7\]"):
        check_model(gguf, range(3, 6))


def test_old_keys_are_recovered_from_any_half(tmp_path: Path) -> None:
    def without_vocabulary(values: TypedMetadata) -> TypedMetadata:
        return {key: value for key, value in values.items() if not key.endswith(".vocab_size")}

    path = rewritten(
        file_of("nano"),
        tmp_path / "second.gguf",
        rename=lambda name: name if layer_of(name) >= 3 else None,
        metadata=without_vocabulary,
    )
    with open_gguf(path) as gguf:
        assert check_model(gguf, range(3, 6)).hp == whole("nano").config.hp


class Touched(dict[str, Tensor]):
    """Tensors, and the names of those that were asked for."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__(tensors)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("held", [range(2), range(2, 4), range(4, 6)])
def test_only_the_tensors_of_the_layers_held_are_touched(held: range) -> None:
    with open_gguf(file_of("nano")) as gguf:
        tensors = Touched(load_tensors(gguf))
        config = ModelConfig(whole("nano").config.hp)
        model = Transformer.load(tensors, config, backend("cpu", quality=False), held)
        assert model.held == held
        assert {layer_of(name) for name in tensors.names} == set(held)
        assert len(tensors.names) > 20 * len(held)
        assert [model.embedding is None, model.head is None] == [held.start != 0, held.stop != 6]
        memory = model.new_state().own_bytes
        assert memory < whole("nano").new_state().own_bytes
