"""Our own way from items to messages: calls and results as they come, nothing refused for its order.

Promises: what the official library takes becomes the same messages, except that calls and results keep their own order.
Beyond that, a call without a result stays without one, a result of an unknown or an earlier call is a result all the
same, and a result without an id belongs to the first call that nothing has answered.
"""

from collections import OrderedDict
from collections.abc import Iterable

from whitedwarf.conversation.content import Content
from whitedwarf.conversation.message import SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.openai_responses.blocks import joined_answer, joined_blocks
from whitedwarf.protocol.openai_responses.declarations import Tool, WebSearchTool, listed, listed_flat
from whitedwarf.protocol.openai_responses.grouping import Reading
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
from whitedwarf.protocol.openai_responses.namespaces import OfferedTool
from whitedwarf.protocol.openai_responses.turns import Entry, ToolUpdate, Turn
from whitedwarf.protocol.resolution import compact


class LocalGrouping:
    """Collects items into messages."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entries: list[Entry] = []
        self._turn = Turn()
        self._unanswered: OrderedDict[str, None] = OrderedDict()  # calls of all turns; its first is found at once
        self._pending: set[str] = set()  # those of this turn

    def entries(self, items: Iterable[Item]) -> list[Entry]:
        """The messages of all items; RefusedRequest for an image that is none."""
        for index, item in enumerate(items):
            self._take(item, index)
        self._end_turn()
        return self._entries

    def _take(self, item: Item, index: int) -> None:
        path = f"input[{index}]"
        match item:
            case MessageItem("assistant", content):
                self._say(joined_answer(content, self._reading.version, path))
            case MessageItem(role, content):
                self._end_turn()
                said = joined_blocks(content, self._reading.version, path, "content")
                self._entries.append(UserMessage(said) if role == "user" else SystemMessage(said))
            case ReasoningItem(text):
                self._think(text)
            case CallItem():
                self._call(item)
            case OutputItem(call_id, output):
                self._answer(call_id, joined_blocks(output, self._reading.version, path, "output"))
            case SearchOutputItem(call_id, tools):
                self._answer(call_id, self._listing(tools, self._reading.found[index]))
                self._update(self._reading.found[index])
            case HostedCallItem() | UnknownItem():
                pass

    def _say(self, text: str) -> None:
        self._end_answered_turn()
        self._turn.say(text)

    def _think(self, text: str) -> None:
        self._end_answered_turn()
        if not text:
            return
        if self._turn.texts and not self._turn.calls:
            self._end_turn()
        self._turn.think(text)

    def _call(self, item: CallItem) -> None:
        if self._turn.results and not self._pending:
            self._end_turn()
        self._unanswered[item.call_id] = None
        self._pending.add(item.call_id)
        name = self._reading.names.in_history(item.namespace, item.name)
        self._turn.call(ToolCall(item.call_id, name, item.arguments))

    def _answer(self, call_id: str | None, content: Content) -> None:
        answered = next(iter(self._unanswered), None) if call_id is None else call_id
        if answered is not None:
            self._unanswered.pop(answered, None)
            self._pending.discard(answered)
        result = ToolMessage(content, answered)
        if self._turn.calls:
            self._turn.results.append(result)
        else:
            self._end_turn()
            self._entries.append(result)

    def _update(self, found: tuple[OfferedTool, ...]) -> None:
        if not found:
            return
        if self._turn.calls:
            self._turn.updates.append(ToolUpdate(found))
        else:
            self._entries.append(ToolUpdate(found))

    def _listing(self, tools: Iterable[Tool], found: Iterable[OfferedTool]) -> str:
        """What the model reads of found tools. V4 shows them nowhere else, so there they have the names to call."""
        if self._reading.version is ModelVersion.V4:
            return compact([listed(tool.tool) | {"name": tool.name} for tool in found])
        return compact([shown for tool in tools if not isinstance(tool, WebSearchTool) for shown in listed_flat(tool)])

    def _end_answered_turn(self) -> None:
        """A turn that has results is over; one whose calls have none yet may still go on."""
        if self._turn.results:
            self._end_turn()

    def _end_turn(self) -> None:
        self._entries += self._turn.entries()
        self._turn = Turn()
        self._pending.clear()
