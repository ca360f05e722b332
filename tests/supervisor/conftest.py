"""The supervisor's tests run on asyncio, each within a time."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
