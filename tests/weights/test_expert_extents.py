"""Where every expert's bytes lie in a model's files."""

from pathlib import Path

import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.expert_extents import Extent, LayerExtents, expert_extents
from whitedwarf.weights.store import bundled_model


def test_an_experts_extents_are_the_bytes_of_its_matrices() -> None:
    with open_gguf(bundled_model()) as gguf:
        layers = expert_extents(gguf)
        assert [layer.layer for layer in layers] == list(range(6))
        for layer in layers:
            for role, extent in zip(("gate", "up", "down"), layer.of(5), strict=True):
                stack = gguf.data(f"blk.{layer.layer}.ffn_{role}_exps.weight").reshape(layer.num_experts, -1)
                with gguf.paths[extent.file].open("rb") as file:
                    file.seek(extent.offset_bytes)
                    assert file.read(extent.size_bytes) == stack[5].tobytes()
            assert layer.expert_bytes == sum(extent.size_bytes for extent in layer.of(0))


@pytest.mark.parametrize("expert", [-1, 4])
def test_an_expert_that_is_not_there_is_refused(expert: int) -> None:
    stack = Extent(0, 0, 40)
    with pytest.raises(ValueError, match=f"from 0 to 3, got {expert}"):
        LayerExtents(0, stack, stack, stack, 4).of(expert)


class _Partial:
    """A model of which only some tensors are told."""

    def __init__(self, path: Path, without: str) -> None:
        self.paths = (path,)
        with open_gguf(path) as gguf:
            self.tensors = {name: info for name, info in gguf.tensors.items() if name != without}


def test_a_layer_without_one_of_its_stacks_is_refused() -> None:
    gguf = _Partial(bundled_model(), "blk.3.ffn_up_exps.weight")
    with pytest.raises(FileFormatError, match="layer 3 as three stacks, but there is no up of them"):
        expert_extents(gguf)  # type: ignore[arg-type]
