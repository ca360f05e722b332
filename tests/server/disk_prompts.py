"""Prompts and a store that a test and the program that it kills have in common."""

from pathlib import Path

import numpy as np

from whitedwarf.cli.loading import LoadedModel, open_tokenizer
from whitedwarf.config import ServeSettings
from whitedwarf.server.disk_prefixes import DiskPrefixes
from whitedwarf.server.disk_settings import disk_settings

LENGTHS = (100, 127, 128, 129, 511, 512, 513)


def prompt_of(length: int) -> list[int]:
    return np.random.default_rng(length).integers(100, 4000, length).tolist()


def serve_settings(folder: Path, written_as: str) -> ServeSettings:
    """Every prompt is saved whole."""
    return ServeSettings(
        kv_disk_dir=folder,
        kv_disk_format="ds4" if written_as == "ds4" else "packed",
        kv_cache_min_tokens=64,
        kv_cache_boundary_trim_tokens=0,
        kv_cache_boundary_align_tokens=1,
    )


def store_of(loaded: LoadedModel, serve: ServeSettings) -> DiskPrefixes:
    settings = disk_settings(serve, loaded.transformer, loaded.gguf, quality=False)
    assert settings is not None
    return DiskPrefixes(loaded.transformer, open_tokenizer(loaded.gguf), settings)
