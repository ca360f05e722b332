import pytest

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    with open_gguf(bundled_model()) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)
