"""What a Chat Completions server streams, written into an answer. Pure."""

from typing import Any

from whitedwarf.evals.answer import Answer
from whitedwarf.evals.budget import CloseKind, ThinkClose
from whitedwarf.evals.grade import ThinkMode
from whitedwarf.web.endpoint.chat_stream import ChatStream

_CLOSED = ThinkClose(CloseKind.NATURAL)  # where exactly, only the server knows


class ChatReader:
    """Writes one answer. `thinks`: the mode to note where the server does think."""

    def __init__(self, answer: Answer, thinks: ThinkMode) -> None:
        self._answer = answer
        self._mode: ThinkMode = "max" if thinks == "max" else "high"
        self._stream = ChatStream(self)
        self._num_deltas = 0
        self._has_usage = False

    def take(self, data: str) -> None:
        """One event's data; StreamError for an error in it, or for what is no event."""
        self._stream.take(data)

    def finish(self) -> None:
        """The stream has ended; StreamError where the answer had not."""
        try:
            self._stream.finish()
        finally:
            self._answer.is_cut = self._stream.finish_reason == "length"

    def thought(self, text: str) -> None:
        """As ChatSink."""
        self._answer.think_mode = self._mode
        self._say(text, is_thinking=True)

    def thoughts_closed(self) -> None:
        """As ChatSink."""
        self._answer.close_thoughts()
        self._answer.closed = _CLOSED

    def said(self, text: str) -> None:
        """As ChatSink."""
        self._say(text, is_thinking=False)

    def called(self, deltas: list[Any]) -> None:
        """No tools are offered; what is called all the same is no part of an answer."""

    def counted(self, prompt: int | None, generated: int | None) -> None:
        """As ChatSink."""
        if prompt is not None:
            self._answer.prompt_tokens = prompt
        if generated is not None:
            self._answer.generated_tokens, self._has_usage = generated, True

    def _say(self, text: str, *, is_thinking: bool) -> None:
        if text:
            self._num_deltas += 1
            if not self._has_usage:
                self._answer.generated_tokens = self._num_deltas
            self._answer.say(text.encode("utf-8", "replace"), text, is_thinking=is_thinking)
