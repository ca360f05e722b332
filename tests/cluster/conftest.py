"""Keys and processes for tests of clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.cluster_processes import ClusterProcesses
from whitedwarf.cluster.key_folder import KeyFolder
from whitedwarf.cluster.keys import make_keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    return make_keys(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
def processes(keys: KeyFolder, tmp_path: Path) -> Iterator[ClusterProcesses]:
    cluster = ClusterProcesses(tmp_path, ("--cluster-keys", str(keys.folder)))
    yield cluster
    cluster.close()
