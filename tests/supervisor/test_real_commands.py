"""What is made of a config's entries is what the real servers take: llama-server's and our own engine's."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisor.children import free_port
from supervisor.test_config_file import config_of
from whitedwarf.supervisor.commands import state_folders
from whitedwarf.supervisor.launch import Launcher
from whitedwarf.supervisor.upstream import ask
from whitedwarf.weights.store import bundled_model

pytestmark = pytest.mark.anyio
ALIAS = "org/模型 v4:q2"


async def launched(folder: Path, entry: dict[str, Any], **top: Any) -> tuple[int, list[str], list[Path]]:
    """Real context, ids that it tells, and what of its state was left on disk."""
    entry = {"name": "m / ä", "alias": ALIAS, "internalPort": free_port(), "startSettleSec": 0, **entry}
    config = config_of(folder, {"models": [entry], "stateDir": "state", **top})
    (model,) = config.managed
    with anyio.fail_after(120):
        running = await Launcher(config).launch(model, lambda text: None)
        try:
            told = await ask(running.address, "GET", "/v1/models", running.headers, timeout_s=30)
        finally:
            await running.stop()
    (state,) = state_folders(model, config.state_folder)
    return running.context_size, [one["id"] for one in json.loads(told.body)["data"]], list(state.iterdir())


@pytest.mark.clients
@pytest.mark.parametrize(
    ("entry", "common"),
    [
        ({"ctxSize": 1024}, ["-np", "1", "--jinja"]),  # q8_0 and q4_0
        ({"ctxSize": 1024}, ["-np", "1", "--jinja", "-fa", "off"]),
        ({"ctxSize": 1024, "cacheTypeK": "f16", "cacheTypeV": "f16"}, ["-np", "1", "--jinja"]),
        ({"args": ["--ctx-size", "1024", "-np", "1", "--jinja"]}, []),
    ],
)
async def test_the_real_llama_server_takes_what_an_entry_becomes(
    entry: dict[str, Any], common: list[str], llama_server: Path, markov: Path, tmp_path: Path
) -> None:
    top = {"llamaServer": {"bin": str(llama_server), "args": common}}
    context, ids, _ = await launched(tmp_path, {"path": str(markov), **entry}, **top)
    assert (context, ids) == (1024, [ALIAS])


async def test_our_engine_takes_what_an_entry_becomes(tmp_path: Path) -> None:
    entry = {"path": str(bundled_model()), "ctxSize": 2048}
    context, ids, _ = await launched(tmp_path, entry, whitedwarf={"args": ["--threads", "1"]})
    assert (context, ids) == (2048, [ALIAS])
