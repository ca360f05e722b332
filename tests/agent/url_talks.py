"""What tests of the agent behind a URL share: deltas of calls, a dialogue that notes what it tells."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.agent.dialogue import Answer
from whitedwarf.agent.events import Event
from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.url_dialogue import UrlDialogue
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.web.endpoint.server_options import server_options

READ = ToolDefinition("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def call(index: int = 0, name: str | None = None, arguments: Any = None, id: str | None = None) -> dict[str, Any]:
    """One delta with a piece of a call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece: dict[str, Any] = {"index": index, "function": function}
    return {"tool_calls": [piece if id is None else piece | {"id": id, "type": "function"}]}


def together(*deltas: dict[str, Any]) -> dict[str, Any]:
    """Several pieces in one delta."""
    return {"tool_calls": [piece for delta in deltas for piece in delta["tool_calls"]]}


def reads(path: str, id: str = "c1") -> list[dict[str, Any]]:
    """A whole call in three deltas."""
    text = json.dumps({"path": path})
    return [call(0, "read", "", id), call(0, None, text[:5]), call(0, None, text[5:])]


@dataclass
class Checks:
    """Refuses parameters with this text."""

    refused: str = ""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def closed(self, tool: str, parameter: str, arguments: Mapping[str, str]) -> None:
        self.seen.append((tool, parameter, dict(arguments)))
        if self.refused and arguments[parameter] == self.refused:
            raise ToolError(f"there is no {self.refused}")

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        return True


@dataclass
class Talk:
    """A dialogue, and what it told."""

    dialogue: UrlDialogue
    told: list[Event] = field(default_factory=list)
    checks: Checks = field(default_factory=Checks)

    def answer(self, max_tokens: int = 100) -> Answer:
        return self.dialogue.answer(self.told.append, self.checks, max_tokens)

    def of(self, *kinds: type) -> Sequence[Any]:
        return [event for event in self.told if isinstance(event, kinds)]


def talk(url: str, words: str = "Hi", **settings: Any) -> Talk:
    """A conversation whose user has spoken."""
    options = server_options(url, settings.pop("key", None), "only", settings.pop("extra", None))
    result = Talk(UrlDialogue(options, settings.pop("context_length", 10_000), first_pause_s=0.01, **settings))
    result.dialogue.begin("Be brief.", [READ], "")
    result.dialogue.say(words)
    return result
