import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_engine_thread_outlives_its_test() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "whitedwarf-engine"] == []
