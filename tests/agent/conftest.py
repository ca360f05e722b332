from collections.abc import Iterator

import pytest

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    with open_gguf(bundled_model()) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)


@pytest.fixture(scope="session")
def nano_model() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=16384))


@pytest.fixture
def nano_engine(nano_model: LoadedModel) -> Iterator[Engine]:
    with Engine(nano_model.transformer, max_chunk_tokens=64, max_parallel=1) as engine:
        yield engine
