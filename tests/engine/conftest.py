import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_engine_thread_outlives_its_test() -> Iterator[None]:
    before = engine_threads()
    yield
    assert engine_threads() <= before


def engine_threads() -> set[threading.Thread]:
    """Those of a whole module's engine may be among them."""
    return {thread for thread in threading.enumerate() if thread.name == "whitedwarf-engine"}
