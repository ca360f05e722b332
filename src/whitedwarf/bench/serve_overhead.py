"""What the server itself costs for each streamed token: a script in place of a model, one client that only reads.

Twice: with all tokens there at once, as fast as they can be told (wall and processor time), and with one each
millisecond, each of which wakes the server anew (processor time). Both include the scripted engine's own work.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.bench.serve_client import CHAT, MESSAGES, RESPONSES, Address, chat_body, streamed, user
from whitedwarf.bench.serve_process import ServedProcess, started
from whitedwarf.conversation.json_value import Json

PACE_MS = 1


@dataclass(frozen=True, slots=True)
class OverheadSample:
    """Seconds per token of each repetition, and of the server's processor time."""

    dialect: str
    is_paced: bool
    tokens: int
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]


def measure_overhead(tokens: int, repeats: int) -> Iterator[OverheadSample]:
    """All dialects, unpaced and paced, over answers of that many tokens; the first repetition is not counted."""
    for is_paced in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "script.jsonl")
            script.write_text(json.dumps({"pieces": [" the"] * tokens, "delay_ms": PACE_MS if is_paced else 0}))
            with started(["--script", str(script)]) as server:
                for dialect in BODIES:
                    yield _measure(server, dialect, is_paced, repeats)


def _measure(server: ServedProcess, dialect: str, is_paced: bool, repeats: int) -> OverheadSample:
    path, body = BODIES[dialect]
    wall_s, cpu_s = [], []
    for _ in range(repeats + 1):
        before_s = server.cpu_s
        answer = streamed(Address("127.0.0.1", server.port), path, body())
        cpu_s.append((server.cpu_s - before_s) / answer.generated_tokens)
        wall_s.append(answer.whole_s / answer.generated_tokens)
    return OverheadSample(dialect, is_paced, answer.generated_tokens, tuple(wall_s[1:]), tuple(cpu_s[1:]))


def _messages() -> dict[str, Json]:
    return {"model": "bench", "max_tokens": 30_000, "messages": [user("Go on.")], "stream": True}


def _responses() -> dict[str, Json]:
    return {"model": "bench", "input": "Go on.", "stream": True}


BODIES: dict[str, tuple[str, Callable[[], dict[str, Json]]]] = {
    "chat": (CHAT, lambda: chat_body([user("Go on.")], 30_000)),
    "messages": (MESSAGES, _messages),
    "responses": (RESPONSES, _responses),
}
