from collections.abc import Iterator

import pytest

from fakes.scripted_server import Served, serving
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    with open_gguf(bundled_model()) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)


@pytest.fixture(scope="session")
def reader() -> Iterator[Served]:
    """A server of which only what reaches its engine is of interest."""
    with serving({"pieces": ["x"], "finish": "length"}) as served:
        yield served
