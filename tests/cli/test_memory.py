"""What a model will need, before it is loaded: for the context that is allowed, not for the one it could have."""

from dataclasses import replace

import pytest

from whitedwarf.cli.memory import fitting_chunk, memory_need, row_scratch_bytes, with_drafts
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.model.config import ModelConfig

FLASH = model_shape("flash")
MIB = 1 << 20


def test_only_the_allowed_context_counts() -> None:
    need = memory_need(ModelConfig(FLASH, max_context=32_768), 80 << 30, 2048)
    assert need.context_length == 32_768
    assert need.context_bytes == 32_768 // 4 * 21 * (711 + 68) + 32_768 // 128 * 20 * 711
    assert 40 * MIB < memory_need(ModelConfig(FLASH, max_context=1), 0, 1).fixed_bytes < 60 * MIB


def test_a_million_tokens_of_flash_are_about_four_gigabytes() -> None:
    assert memory_need(ModelConfig(FLASH), 0, 2048).context_bytes == pytest.approx(4.4e9, rel=0.02)


def test_drafts_count_once_for_every_context_and_the_file_of_their_block_once() -> None:
    config = ModelConfig(FLASH, max_context=1024)
    without = memory_need(config, 80 << 30, 256)
    one = with_drafts(without, config, 3 << 30)
    four = with_drafts(replace(without, parallel=4), config, 3 << 30)
    of_one = one.fixed_bytes - without.fixed_bytes
    assert 128 * 4 * 4096 * 4 < of_one < 10 * MIB
    assert four.fixed_bytes - without.fixed_bytes == 4 * of_one
    assert one.weights_bytes == four.weights_bytes == 83 << 30


def test_a_chunk_is_never_longer_than_the_context() -> None:
    small, large = (memory_need(ModelConfig(FLASH, max_context=256), 0, chunk).fixed_bytes for chunk in (256, 2048))
    assert small == large


GIB = 1 << 30


@pytest.mark.parametrize(("usable_gib", "chunk"), [(1024, 1024), (16, 1024), (4, 512), (1, 128)])
def test_a_chunk_of_flash_is_as_long_as_memory_allows_its_buffers(usable_gib: int, chunk: int) -> None:
    config = ModelConfig(FLASH, max_context=32_768)
    assert fitting_chunk(config, usable_gib * GIB) == chunk
    assert chunk * row_scratch_bytes(FLASH) * 8 <= usable_gib * GIB


def test_a_short_context_needs_no_long_chunk() -> None:
    assert fitting_chunk(ModelConfig(FLASH, max_context=700), 64 * GIB) == 1024
    assert fitting_chunk(ModelConfig(FLASH, max_context=100), 64 * GIB) == 512


def test_the_buffers_of_flash_s_chunk_leave_room_below_one_and_a_half_gigabytes_at_32k() -> None:
    need = memory_need(ModelConfig(FLASH, max_context=32_768), 0, 1024)
    assert need.fixed_bytes + need.context_bytes < 1.5e9
