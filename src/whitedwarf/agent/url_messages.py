"""A conversation as messages of OpenAI's Chat Completions. Pure.

Promises what the strictest servers ask: one system message, at the start; users' messages never next to one another;
an answer is never empty; every call has arguments that are a JSON object, and one result.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.agent.dialogue import Result
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition

Message = dict[str, Any]
NOT_RUN = "(not run: the user interrupted)"
_NO_SCHEMA: Json = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A call as the model made it, or as much of it as can be kept."""

    id: str
    name: str
    arguments: Mapping[str, Json]


@dataclass(slots=True)
class ChatMessages:
    """All that was said. Change it through the methods only."""

    tools: list[Message] = field(default_factory=list)
    _system: str = ""
    _summary: str = ""  # of what was dropped
    _turns: list[Message] = field(default_factory=list)
    _open: dict[str, str] = field(default_factory=dict)  # calls without a result: id to name

    def begin(self, system: str, tools: Sequence[ToolDefinition], extra: str) -> None:
        """Forget everything."""
        self.tools = [_function(tool) for tool in tools]
        self._system = "\n\n".join(filter(None, (system, extra)))
        self._summary = ""
        self._turns, self._open = [], {}

    def copy(self) -> "ChatMessages":
        """One that can be added to without a trace here."""
        turns = [dict(message) for message in self._turns]
        return ChatMessages(self.tools, self._system, self._summary, turns, dict(self._open))

    def messages(self) -> list[Message]:
        """For a request."""
        system = "\n\n".join(filter(None, (self._system, self._summary)))
        first = [{"role": "system", "content": system}] if system else []
        return [*first, *(dict(message) for message in self._turns)]

    def say(self, text: str) -> None:
        """The user's words; calls that wait for results will not get any."""
        self._settle(NOT_RUN)
        if self._turns and self._turns[-1]["role"] == "user":
            self._turns[-1]["content"] += f"\n\n{text}"
        else:
            self._turns.append({"role": "user", "content": text})

    def instruct(self, text: str) -> None:
        """Before the user's first words a part of the system's, later a note: servers take one system message only."""
        if not self._turns and not self._summary:
            self._system += f"\n\n{text}"
        else:
            self.say(f"[A note from the program, not from the user: {text}]")

    def answered(self, text: str, reasoning: str, calls: Sequence[SaidCall]) -> None:
        """What the model said; `reasoning` only where the server takes it back."""
        if not text and not calls:
            return
        message: Message = {"role": "assistant", "content": text or None}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = [_call(call) for call in calls]
        self._turns.append(message)
        self._open = {call.id: call.name for call in calls}

    def report(self, results: Sequence[Result], note: str) -> None:
        """Results, each to its call; calls without one are told the note, which stands alone where none is open."""
        waiting = list(self._open)
        for place, result in enumerate(results):
            id = result.call.id if result.call.id in self._open else next(iter(waiting[place:]), "")
            if id in self._open:
                self._result(id, result.text)
            else:
                self.say(f"[Result of {result.call.name}]\n{result.text}")
        if self._open:
            self._settle(note or NOT_RUN)
        elif note:
            self.instruct(note)

    def shorten(self, summary: str, keep_bytes: int) -> None:
        """Keep the system's part with the summary, and as much of the end as fits, from words of the user on."""
        self._settle(NOT_RUN)
        begins = (place for place, message in enumerate(self._turns) if message["role"] == "user")
        tails = (self._turns[place:] for place in begins)
        self._turns = next((tail for tail in tails if size_of(tail) <= keep_bytes), [])
        self._summary = summary

    def size(self) -> int:
        """Bytes of all of it in a request."""
        return size_of(self.messages()) + size_of(self.tools)

    def _settle(self, text: str) -> None:
        for id in list(self._open):
            self._result(id, text)

    def _result(self, id: str, text: str) -> None:
        name = self._open.pop(id)
        self._turns.append({"role": "tool", "tool_call_id": id, "name": name, "content": text})


def size_of(messages: Sequence[Message]) -> int:
    """Bytes of their JSON, about."""
    return len(json.dumps(messages, ensure_ascii=False).encode("utf-8", "replace"))


def _call(call: SaidCall) -> Message:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _function(tool: ToolDefinition) -> Message:
    function: Message = {"name": tool.name, "parameters": tool.parameters or _NO_SCHEMA}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}
