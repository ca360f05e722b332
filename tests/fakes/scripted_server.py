"""The whole server over a scripted engine, on a real loopback port, for tests with real clients."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fakes.gates import PATIENCE_S
from fakes.tokenizer_json import metadata_from_tokenizer_json
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.engine.scripted_job import Received
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.policy import LONGEST_CALL_TOKENS, local
from whitedwarf.respond import Road
from whitedwarf.server.app import make_app
from whitedwarf.server.endpoints import Endpoints
from whitedwarf.server.listen import Server
from whitedwarf.server.models import ServedModel
from whitedwarf.server.script import ScriptWords, compile_script
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule
from whitedwarf.web.sockets import address_of, bound_socket

NANO_JSON = Path(__file__).parents[1] / "golden" / "prompt" / "nano_tokenizer.json"
TOKENIZER = Tokenizer.from_metadata(metadata_from_tokenizer_json(NANO_JSON))
MODEL = ServedModel("deepseek-v4-nano", "nano", 4000, 1_700_000_000, "2023-11-14T22:13:20Z")
_SPELT = re.compile("(" + "|".join(re.escape(token) for token in (SpecialToken.THINK_CLOSE, SpecialToken.DSML)) + ")")


@dataclass(frozen=True)
class Served:
    """A running server: its address, and the engine behind it."""

    url: str
    engine: ScriptedEngine

    @property
    def last(self) -> Received:
        last = self.engine.last_received
        assert last is not None
        return last


def says(text: str, **line: Any) -> dict[str, Any]:
    """A script's line for an answer; `</think>` and `｜DSML｜` in it are control tokens, the rest are words."""
    pieces: list[Any] = []
    for part in _SPELT.split(text):
        if part in (SpecialToken.THINK_CLOSE, SpecialToken.DSML):
            pieces.append({"special": part})
        else:
            pieces += re.findall(r"\s*\S+|\s+$", part)
    return {"pieces": pieces, **line}


def calls(name: str, **arguments: object) -> str:
    """The model's own text for one tool call: strings as they are, anything else as JSON."""
    bar = SpecialToken.DSML.value
    parameters = "".join(
        f'<{bar}parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
        f"{value if isinstance(value, str) else json.dumps(value)}</{bar}parameter>\n"
        for key, value in arguments.items()
    )
    invoke = f'<{bar}invoke name="{name}">\n{parameters}</{bar}invoke>\n'
    return f"\n\n<{bar}tool_calls>\n{invoke}</{bar}tool_calls>"


@contextmanager
def serving(
    *lines: dict[str, Any],
    max_parallel: int = 8,
    max_waiting: int = 256,
    keys: ApiKeys | None = None,
    max_call_tokens: int = LONGEST_CALL_TOKENS,
    **endpoints: Any,
) -> Iterator[Served]:
    """A server that answers with these lines of a script."""
    answers = compile_script([json.dumps(line).encode() for line in lines], ScriptWords.of(TOKENIZER))
    engine = ScriptedEngine(
        answers,
        context_length=MODEL.context_length,
        vocab_size=TOKENIZER.vocab_size,
        max_parallel=max_parallel,
        max_waiting=max_waiting,
    )
    road = Road(engine, TOKENIZER, local(ModelVersion.V4, max_call_tokens=max_call_tokens))
    app = make_app(Endpoints(road, MODEL, **endpoints), HostRule(frozenset()), keys)
    server = Server(app, drain_s=1.0, hurry=engine.close)
    listener = bound_socket("127.0.0.1", 0)
    listener.listen()  # before anybody connects
    thread = threading.Thread(target=server.run, args=([listener],), name="scripted-server")
    thread.start()
    try:
        yield Served(address_of(listener), engine)
    finally:
        engine.close()
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()


def eventually(is_so: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether it comes true in time."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if is_so():
            return True
        time.sleep(0.01)
    return is_so()
