"""The messages of a Chat request as clients write them, in the form that the official dialect has (messages.py).

Promises: roles, names of members and kinds of content beyond the official ones are read where they have one right
meaning, and a result without an id answers the first call that waits for one; errors say in which message they are.
An unknown role is refused.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.protocol.custom_tools import custom_arguments
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_values import Object, expected, located, object_of
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.content import read_blocks
from whitedwarf.protocol.openai_chat.local_content import local_content, local_text, thoughts_within
from whitedwarf.protocol.openai_chat.messages import MessageRequest, ToolRequest, read_message
from whitedwarf.protocol.resolution import compact

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "latest_reminder": "latest_reminder",
}
"""Each role that is understood, and the official one that it is."""


def local_messages(value: Any, notes: Notes) -> list[MessageRequest]:
    """All messages; MalformedRequest for the first that cannot be read."""
    if not isinstance(value, list):
        raise expected("messages", "a list of messages", value)
    history = _History(notes)
    return [history.read(message, index) for index, message in enumerate(value)]


@dataclass(slots=True)
class _History:
    """The messages so far, as far as later ones depend on them."""

    notes: Notes
    last_calls: deque[str] = field(default_factory=deque)  # their ids, but for those at the front with a result
    answered: set[str] = field(default_factory=set)

    def read(self, message: Any, index: int) -> MessageRequest:
        path = f"messages[{index}]"
        match _official_role(object_of(message, path), path):
            case "tool":
                return self._result(message, path)
            case "assistant":
                official = self._answer(message, index)
            case "latest_reminder":
                official = {
                    "role": "latest_reminder",
                    "content": local_text(message.get("content"), f"{path}.content", self.notes),
                }
            case role:
                official = {
                    "role": role,
                    "content": local_content(message.get("content"), f"{path}.content", self.notes),
                }
        request: MessageRequest = located(path, read_message, official)
        return request

    def _result(self, message: Object, path: str) -> ToolRequest:
        call_id = message.get("tool_call_id")
        if call_id is None:
            call_id = self._first_waiting()
        if call_id is not None and not isinstance(call_id, str):
            raise expected(f"{path}.tool_call_id", "a string", call_id)
        if call_id is not None:
            self.answered.add(call_id)
        content = local_content(message.get("content"), f"{path}.content", self.notes)
        return ToolRequest(located(path, read_blocks, content), call_id)

    def _first_waiting(self) -> str | None:
        """The first of the last calls that has no result yet."""
        while self.last_calls and self.last_calls[0] in self.answered:
            self.last_calls.popleft()
        return self.last_calls[0] if self.last_calls else None

    def _answer(self, message: Object, index: int) -> Object:
        path = f"messages[{index}]"
        calls = _local_calls(message, index)
        if calls:
            self.last_calls = deque(call["id"] for call in calls if isinstance(call["id"], str))
            self.answered = set()
        content = message.get("content")
        return {
            "role": "assistant",
            "content": local_text(content, f"{path}.content", self.notes),
            "reasoning_content": _reasoning(message, content),
            "tool_calls": calls or None,
            "prefix": message.get("prefix"),
        }


def _official_role(message: Object, path: str) -> str:
    role = message.get("role", "user")
    if not isinstance(role, str) or role not in ROLES:
        raise MalformedRequest(f"{path}.role: expected one of {', '.join(ROLES)}; got {shortened(role)}")
    return ROLES[role]


def _reasoning(message: Object, content: Any) -> Any:
    """What the model thought, under whichever name the client kept it."""
    for name in ("reasoning_content", "reasoning"):
        if message.get(name) is not None:
            return message[name]
    return thoughts_within(content)


def _local_calls(message: Object, index: int) -> list[Object]:
    calls = message.get("tool_calls")
    if calls is None:
        calls = []
    if not isinstance(calls, list):
        raise expected(f"messages[{index}].tool_calls", "a list of calls", calls)
    legacy = message.get("function_call")
    if legacy is not None:
        calls = [*calls, {"function": legacy}]
    return [_local_call(call, index, number) for number, call in enumerate(calls)]


def _local_call(call: Any, index: int, number: int) -> Object:
    path = f"messages[{index}].tool_calls[{number}]"
    call_id = object_of(call, path).get("id")
    official = _custom_call(call, path) if call.get("type") == "custom" else _function_call(call, path)
    return {"id": f"call_{index}_{number}" if call_id is None else call_id, "type": "function", "function": official}


def _function_call(call: Object, path: str) -> Object:
    function = object_of(call.get("function"), f"{path}.function")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif isinstance(arguments, dict):
        arguments = compact(arguments)
    return {"name": function.get("name"), "arguments": arguments}


def _custom_call(call: Object, path: str) -> Object:
    custom = call.get("custom")
    if not isinstance(custom, dict) or not isinstance(custom.get("input"), str):
        raise expected(f"{path}.custom", "a name and an input text", custom)
    return {"name": custom.get("name"), "arguments": custom_arguments(custom["input"])}
