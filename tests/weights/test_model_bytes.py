"""What a header says about where a model's bytes are."""

from pathlib import Path

import pytest

from fakes.header_sizes import header_sizes
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.weights.model_bytes import model_bytes
from whitedwarf.weights.store import bundled_model

FLASH = model_shape("flash")
ROOT = Path(__file__).parents[2]


def test_every_byte_of_a_file_is_somewhere() -> None:
    with open_gguf(bundled_model()) as gguf:
        sizes = model_bytes(from_metadata(gguf.metadata, gguf.tensors), gguf.tensors)
        assert sizes.dense_bytes + sizes.experts_bytes == sum(info.size_bytes for info in gguf.tensors.values())
        assert sizes.first_bytes == gguf.tensors["token_embd.weight"].size_bytes
    assert len(sizes.layers) == 6


def test_flash_q2_is_mostly_experts() -> None:
    sizes = model_bytes(FLASH, header_sizes(FLASH, "q2"))
    assert sizes.experts_bytes + sizes.dense_bytes == pytest.approx(81e9, rel=0.08)
    assert sizes.dense_bytes < 10e9
    assert sizes.layers[0].expert_bytes == 2048 * 4096 * 2 * 66 // 256 + 2048 * 4096 * 84 // 256


def test_layers_may_have_experts_of_other_sizes() -> None:
    sizes = model_bytes(FLASH, header_sizes(FLASH, "q2-q4", rich_layers=frozenset(range(37, 43))))
    assert len({layer.expert_bytes for layer in sizes.layers}) == 2


def test_an_mtp_block_is_one_more_layer() -> None:
    plain, more = (model_bytes(FLASH, header_sizes(FLASH, "q2", has_mtp=has)) for has in (False, True))
    assert more.layers[:43] == plain.layers
    assert len(more.layers) == 44
    assert more.layers[43].experts_bytes > plain.layers[0].experts_bytes


def test_what_is_not_loaded_does_not_count() -> None:
    sizes = header_sizes(FLASH, "q2")
    draft = {name.replace("blk.42.", "blk.43."): size for name, size in sizes.items() if name.startswith("blk.42.")}
    assert model_bytes(FLASH, sizes | draft) == model_bytes(FLASH, sizes)
