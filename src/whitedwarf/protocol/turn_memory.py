"""Conversations whose last answer called tools, for clients that send back nothing but the results.

Promises: results belong to an answer only when they answer exactly its calls; bounded to the latest turns, as if each
had its messages to itself, though turns of one conversation share them. May be shared between threads.
Spec: product.md B.12, H.5; but it is a 400 that says that the turn is lost, for SDKs send a 409 again and again.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, ToolMessage
from whitedwarf.protocol.failures import RefusedRequest

MAX_TURNS = 256
MAX_BYTES = 256 << 20


class LostTurn(RefusedRequest):
    """Results came alone, and the conversation that they belong to is not remembered."""


@dataclass(frozen=True, slots=True)
class _Turn:
    conversation: Conversation  # that was asked, with the answer at its end
    size_bytes: int


class TurnMemory:
    """The latest turns by the ids of their calls."""

    def __init__(self, max_turns: int = MAX_TURNS, max_bytes: int = MAX_BYTES) -> None:
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._lock = threading.Lock()
        self._turns: OrderedDict[frozenset[str], _Turn] = OrderedDict()

    def remember(self, asked: Conversation, said: AssistantMessage, asked_bytes: int) -> None:
        """The model answered with calls; `asked_bytes`: about what the conversation takes in memory."""
        ids = frozenset(call.id for call in said.tool_calls or ())
        if not ids:
            return
        turn = _Turn(replace(asked, messages=(*asked.messages, said)), asked_bytes)
        with self._lock:
            self._turns[ids] = turn
            self._size_bytes += turn.size_bytes
            while len(self._turns) > self._max_turns or self._size_bytes > self._max_bytes:
                self._size_bytes -= self._turns.popitem(last=False)[1].size_bytes

    def completed(self, conversation: Conversation) -> Conversation:
        """The conversation itself, or for results alone the one they belong to, going on with them.

        What the request leaves out, system messages and tools, is as it was. Raises LostTurn.
        """
        if not _is_results_alone(conversation.messages):
            return conversation
        results = tuple([message for message in conversation.messages if isinstance(message, ToolMessage)])
        with self._lock:
            turn = self._turns.get(frozenset(result.call_id or "" for result in results))
        if turn is None:
            raise LostTurn(
                "The tool results are of calls that are not in this request, and the conversation they belong to is "
                "not (or no longer) known here: send the full history again."
            )
        return _continued(turn.conversation, conversation, results)


def _is_results_alone(messages: Sequence[Message]) -> bool:
    kinds = {type(message) for message in messages}
    return ToolMessage in kinds and kinds <= {ToolMessage, SystemMessage}


def _continued(earlier: Conversation, conversation: Conversation, results: tuple[ToolMessage, ...]) -> Conversation:
    system = tuple([message for message in conversation.messages if isinstance(message, SystemMessage)])
    history = earlier.messages
    if system:
        history = (*system, *(message for message in history if not isinstance(message, SystemMessage)))
    return replace(
        conversation,
        messages=(*history, *results),
        tools=conversation.tools or earlier.tools,
        tool_choice=conversation.tool_choice if conversation.tools else earlier.tool_choice,
    )
