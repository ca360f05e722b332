"""The official library's way from items to messages: which items are one turn, and which call a result answers.

Promises: results stand right after the turn of their calls, both in the order of the calls' ids; every call has one
result and every result one call, or the request is refused with the official text (spec/recipe.md 4 "Grouping").
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from whitedwarf.conversation.content import Content
from whitedwarf.conversation.message import SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.blocks import joined_answer, joined_blocks
from whitedwarf.protocol.openai_responses.declarations import UnknownTool, listed_flat
from whitedwarf.protocol.openai_responses.items import (
    CallItem,
    HostedCallItem,
    Item,
    MessageItem,
    OutputItem,
    ReasoningItem,
    SearchOutputItem,
    UnknownItem,
)
from whitedwarf.protocol.openai_responses.namespaces import NamespaceNames, OfferedTool
from whitedwarf.protocol.openai_responses.turns import Entry, ToolUpdate, Turn
from whitedwarf.protocol.resolution import compact


@dataclass(frozen=True, slots=True)
class Reading:
    """What the reading of items depends on; `found` are the tools that each search output (by its index) brings."""

    names: NamespaceNames
    found: Mapping[int, tuple[OfferedTool, ...]]
    version: ModelVersion


class OfficialGrouping:
    """Collects items into messages."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entries: list[Entry] = []
        self._turn = Turn()
        self._pending: set[str] = set()  # calls of this turn that nothing has answered yet
        self._called: set[str] = set()
        self._answered: set[str] = set()

    def entries(self, items: Iterable[Item]) -> list[Entry]:
        """The messages of all items; RefusedRequest where they do not fit together."""
        for index, item in enumerate(items):
            self._take(item, index, f"input[{index}]")
        self._end_turn()
        return self._entries

    def _take(self, item: Item, index: int, path: str) -> None:
        match item:
            case MessageItem("assistant"):
                self._say(item, path)
            case MessageItem():
                self._end_turn()
                content = joined_blocks(item.content, self._reading.version, path, "content")
                self._entries.append(_message(item, content, self._reading.version))
            case ReasoningItem(text):
                self._think(text)
            case CallItem():
                self._call(item, path)
            case OutputItem():
                self._result(item, path)
            case SearchOutputItem():
                self._search_result(item, index, path)
            case HostedCallItem():
                self._end_calls()
            case UnknownItem():
                pass

    def _say(self, item: MessageItem, path: str) -> None:
        self._end_calls()
        self._turn.say(joined_answer(item.content, self._reading.version, path))

    def _think(self, text: str) -> None:
        self._end_calls()
        if not text:
            return
        if self._turn.texts:
            self._end_turn()
        self._turn.think(text)

    def _call(self, item: CallItem, path: str) -> None:
        if item.is_search and self._reading.version is ModelVersion.V4:
            return
        _check_id(item.call_id, path)
        if item.call_id in self._called:
            raise RefusedRequest(f"Duplicate 'call_id': {item.call_id}.")
        if self._turn.calls and not self._pending:
            self._end_turn()
        self._called.add(item.call_id)
        self._pending.add(item.call_id)
        name = self._reading.names.in_history(item.namespace, item.name)
        self._turn.call(ToolCall(item.call_id, name, item.arguments))

    def _result(self, item: OutputItem, path: str) -> None:
        """Of a custom call's result the call is looked for before the content is looked at."""
        if item.is_custom:
            self._answer(item.call_id or "", path, lambda: self._content(item, path))
            return
        content = self._content(item, path)
        if item.call_id is None:
            self._end_turn()
            self._entries.append(ToolMessage(content))
        else:
            self._answer(item.call_id, path, lambda: content)

    def _content(self, item: OutputItem, path: str) -> Content:
        return joined_blocks(item.output, self._reading.version, path, "output")

    def _search_result(self, item: SearchOutputItem, index: int, path: str) -> None:
        if self._reading.version is ModelVersion.V4:
            return
        self._answer(item.call_id or "", path, lambda: _listing(item, path))
        if found := self._reading.found[index]:
            self._turn.updates.append(ToolUpdate(found))

    def _answer(self, call_id: str, path: str, content: Callable[[], Content]) -> None:
        _check_id(call_id, path)
        if call_id in self._answered:
            raise RefusedRequest(f"Duplicate tool output for call_id: {call_id}.")
        if call_id not in self._pending:
            raise RefusedRequest(f"No tool call found for tool output with call_id {call_id}.")
        self._turn.results.append(ToolMessage(content(), call_id))
        self._pending.remove(call_id)
        self._answered.add(call_id)

    def _end_calls(self) -> None:
        """What follows belongs to another turn if this one has called anything."""
        if self._turn.calls:
            self._end_turn()

    def _end_turn(self) -> None:
        for call in self._turn.calls:
            if call.id in self._pending:  # the official library names any one of them
                raise RefusedRequest(f"No tool output found for tool call {call.id}.")
        self._turn.calls.sort(key=lambda call: call.id)
        self._turn.results.sort(key=lambda result: result.call_id or "")
        self._entries += self._turn.entries()
        self._turn = Turn()


def _check_id(call_id: str, path: str) -> None:
    if not call_id:
        raise RefusedRequest(
            f"Invalid '{path}.call_id': empty string. Expected a string with minimum length 1, "
            "but got an empty string instead."
        )


def _message(item: MessageItem, content: Content, version: ModelVersion) -> Entry:
    """To V4, which says all that is the system's at its beginning, a developer is a user."""
    is_user = item.role == "user" or (item.role == "developer" and version is ModelVersion.V4)
    return UserMessage(content) if is_user else SystemMessage(content)


def _listing(item: SearchOutputItem, path: str) -> str:
    if any(isinstance(tool, UnknownTool) for tool in item.tools):
        raise RefusedRequest(f"{path}: the enum variant ResponsesTool::Unsupported cannot be serialized")
    return compact([listing for tool in item.tools for listing in listed_flat(tool)])
