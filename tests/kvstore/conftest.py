"""A folder of saved prefixes."""

import pytest

from kvstore.folder import StoreBench


@pytest.fixture
def bench(tmp_path):
    folder = tmp_path / "kv"
    folder.mkdir(mode=0o700)
    return StoreBench(folder)
