"""The items of an answer that are calls: of functions, of custom tools, and the client's tool search.

Promises: official members and order (spec/recipe.md 13); what was cut off stays as it is, never closed into JSON that
looks whole. Does not know which tool is which: `call_item` is told by the reply.
"""

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.protocol.converted import ResponsesReply
from whitedwarf.protocol.custom_input import CustomInput
from whitedwarf.protocol.openai_responses.items_out import ItemOut, ItemStatus, Place
from whitedwarf.protocol.openai_responses.numbering import StreamEvent

TOOL_SEARCH = "tool_search"


class CallOut(ItemOut):
    """A call; `is_finished` once its arguments are complete."""

    IS_CALL = True

    def __init__(self, place: Place, call_id: str) -> None:
        super().__init__(place)
        self._call_id = call_id
        self._fragments: list[str] = []
        self.is_finished = False

    def grown(self, fragment: str) -> list[StreamEvent]:
        """The events that more of the arguments gives."""
        self._fragments.append(fragment)
        return []

    @property
    def _arguments(self) -> str:
        return "".join(self._fragments)


class FunctionCallOut(CallOut):
    """A call of a function. With `names_done` the event that ends the arguments tells the name again."""

    ID_PREFIX = "fc"

    def __init__(self, place: Place, call_id: str, tool: dict[str, Json], *, names_done: bool) -> None:
        super().__init__(place, call_id)
        self._tool = tool  # name, and namespace where it has one
        self._names_done = names_done

    def grown(self, fragment: str) -> list[StreamEvent]:
        super().grown(fragment)
        return [self._event("response.function_call_arguments.delta", delta=fragment)]

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        head: dict[str, Json] = {"type": "function_call", "id": self.id, "status": status, "call_id": self._call_id}
        return {**head, **self._tool, "arguments": "" if status == "in_progress" else self._arguments}

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        told = self._tool if self._names_done else {}
        return [self._event("response.function_call_arguments.done", arguments=self._arguments, **told)]


class CustomCallOut(CallOut):
    """A call of a custom tool, which takes plain text.

    A function's arguments that were cut off are no JSON; a plain text looks whole wherever it was cut.
    Unless `is_official` such a call is therefore never ended: some clients run what is ended, whatever its status.
    """

    ID_PREFIX = "ctc"

    def __init__(self, place: Place, call_id: str, tool: dict[str, Json], *, is_official: bool) -> None:
        super().__init__(place, call_id)
        self._tool = tool
        self._ends_whole_only = not is_official
        self._reader = CustomInput(only_leading=is_official)
        self._input: list[str] = []

    def grown(self, fragment: str) -> list[StreamEvent]:
        return self._told(self._reader.feed(fragment))

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        head: dict[str, Json] = {"type": "custom_tool_call", "id": self.id, "status": status, "call_id": self._call_id}
        return {**head, **self._tool, "input": "" if status == "in_progress" else "".join(self._input)}

    def closed(self, status: ItemStatus, *, precedes_call: bool = False) -> list[StreamEvent]:
        if self._ends_whole_only and not self.is_finished:
            return self._told(self._reader.finish(is_complete=False))
        return super().closed(status, precedes_call=precedes_call)

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        rest = self._told(self._reader.finish(is_complete=self.is_finished))
        return [*rest, self._event("response.custom_tool_call_input.done", input="".join(self._input))]

    def _told(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self._input.append(text)
        return [self._event("response.custom_tool_call_input.delta", delta=text)]


class ToolSearchOut(CallOut):
    """A search among the tools that the client keeps back; its arguments are told at once, read."""

    ID_PREFIX = "tsc"

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        members = parse_arguments(self._arguments) if status == "completed" else None
        if status == "completed" and members is None:
            status = "incomplete"
        return {
            "type": "tool_search_call",
            "id": self.id,
            "status": status,
            "call_id": self._call_id,
            "execution": "client",
            "arguments": members or {},
        }

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        return []


def call_item(reply: ResponsesReply, name: str, call_id: str, place: Place) -> CallOut:
    """The kind of item that the client expects for a call of this name."""
    if name == TOOL_SEARCH and reply.searches_tools:
        return ToolSearchOut(place, call_id)
    tool: dict[str, Json] = {"name": name}
    if name in reply.namespaces:
        namespace, local_name = reply.namespaces[name]
        tool = {"name": local_name, "namespace": namespace}
    if name in reply.custom_tools:
        return CustomCallOut(place, call_id, tool, is_official=reply.is_official)
    return FunctionCallOut(place, call_id, tool, names_done=not reply.is_official)
