"""What a model will need, before it is loaded: for the context that is allowed, not for the one it could have."""

import pytest

from whitedwarf.cli.memory import memory_need
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


def test_a_chunk_is_never_longer_than_the_context() -> None:
    small, large = (memory_need(ModelConfig(FLASH, max_context=256), 0, chunk).fixed_bytes for chunk in (256, 2048))
    assert small == large
