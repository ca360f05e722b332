"""A folder of saved prefixes."""

import pytest

from kvstore.folder import StoreBench


@pytest.fixture
def bench(tmp_path):
    folder = tmp_path / "kv"
    folder.mkdir()
    return StoreBench(folder)
