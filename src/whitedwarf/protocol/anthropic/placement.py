"""Which block may stand where, and which call has which result: the official library's rules for Messages.

Promises: its texts, and the order in which it finds mistakes (spec/recipe.md 5). Who reads a conversation calls
`begin`, `check` for each block before anything is made of it, and `end`. The local policy asks nothing of this.
"""

from collections.abc import Iterable

from whitedwarf.protocol.anthropic.blocks import (
    Block,
    ServerToolBlock,
    ThinkingBlock,
    ToolAddition,
    ToolResultBlock,
    ToolUseBlock,
)
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.policy import HostedTools, Policy


class Placement:
    """Follows a conversation block by block and raises RefusedRequest at the first that is out of place."""

    def __init__(self, policy: Policy) -> None:
        self._refuses_server_tools = policy.messages_web_search is HostedTools.REFUSED
        self._index = -1
        self._role = ""
        self._calls: set[str] = set()  # of the last assistant message
        self._unanswered: dict[str, None] = {}  # in order

    def begin(self, index: int, role: str, blocks: tuple[Block, ...]) -> None:
        """The next message: only a user's can follow calls."""
        self._index, self._role = index, role
        if self._unanswered and role != "user":
            raise _unanswered(f"messages.{index}: ", self._unanswered)
        if not blocks and role != "system":
            raise RefusedRequest(f"messages.{index}: all messages must have non-empty content")
        if role != "user":
            self._calls = set()

    def check(self, position: int, block: Block) -> None:
        """The next block of the message."""
        match block:
            case ThinkingBlock():
                self._only("assistant", ".content: thinking blocks may only be in `assistant` messages")
            case ToolUseBlock():
                if self._role != "assistant":
                    raise misplaced_call(self._index)
                self._call(position, block.id)
            case ServerToolBlock(kind):
                named = "tool_use" if kind == "server_tool_use" else kind
                self._only("assistant", f": `{named}` blocks can only be in `assistant` messages")
                self._check_server_tool()
            case ToolResultBlock(tool_use_id):
                self._only("user", ": `tool_result` blocks can only be in `user` messages")
                self._result(position, tool_use_id or "")
            case ToolAddition():
                self._only("system", ": `tool_addition` blocks can only be in `system` messages")
            case _:
                self._check_content(position)

    def end(self) -> None:
        """The message is complete: a user's has answered all calls, and only the very next one can."""
        if self._role != "user":
            return
        if self._unanswered:
            raise _unanswered(f"messages.{self._index - 1}:", self._unanswered)
        self._calls = set()

    def finish(self) -> None:
        """There are no more messages."""
        if self._unanswered:
            raise _unanswered(f"messages.{self._index}:", self._unanswered)

    def _only(self, role: str, message: str) -> None:
        if self._role != role:
            raise RefusedRequest(f"messages.{self._index}{message}")

    def _check_server_tool(self) -> None:
        if self._refuses_server_tools:
            raise RefusedRequest("Unsupported content block: server tools are not supported")

    def _call(self, position: int, call_id: str) -> None:
        if call_id in self._calls:
            raise RefusedRequest(f"messages.{self._index}.content.{position}: `tool_use` ids must be unique")
        self._calls.add(call_id)
        self._unanswered[call_id] = None

    def _result(self, position: int, call_id: str) -> None:
        place = f"messages.{self._index}.content.{position}"
        if call_id not in self._calls:
            raise RefusedRequest(
                f"unexpected `{place}: tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if call_id not in self._unanswered:
            raise RefusedRequest(
                f"{place}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call_id}"
            )
        del self._unanswered[call_id]

    def _check_content(self, position: int) -> None:
        """Text, images and documents come before all calls, and after all results."""
        if not self._unanswered:
            return
        if self._role == "assistant":
            raise _unanswered(f"messages.{self._index}.{position}: ", self._unanswered)
        raise _unanswered(f"messages.{self._index}: ", self._unanswered)


def misplaced_call(index: int) -> RefusedRequest:
    """The error for a call that the model cannot have made."""
    return RefusedRequest(f"messages.{index}: `tool_use` blocks can only be in `assistant` messages")


def _unanswered(place: str, ids: Iterable[str]) -> RefusedRequest:
    return RefusedRequest(
        f"{place}`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(sorted(ids))}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )
