"""What a Chat Completions server streams, read: events to thoughts, answer, pieces of calls and counts. Pure.

Thoughts come as `reasoning_content` (or `reasoning`), or in the content between `<think>` and `</think>`; both are
understood, in any split.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol

from whitedwarf.web.endpoint.complaint import told_error
from whitedwarf.web.endpoint.event_lines import StreamError

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


class ChatSink(Protocol):
    """Who hears what is read, in order."""

    def thought(self, text: str) -> None:
        """More of the thoughts; the first one may be empty, where a tag opens them."""
        ...

    def thoughts_closed(self) -> None:
        """The answer begins."""
        ...

    def said(self, text: str) -> None:
        """More of the answer."""
        ...

    def called(self, deltas: list[Any]) -> None:
        """A non-empty `tool_calls` of a delta, as it came."""
        ...

    def counted(self, prompt: int | None, generated: int | None) -> None:
        """The server's own counts of tokens."""
        ...


@dataclass(slots=True)
class _Tag:
    """Text that may be the beginning of a tag waits until it is known."""

    held: str = ""

    def split(self, text: str, tag: str) -> tuple[str, bool, str]:
        """What comes before the tag, whether it came, and what comes after it."""
        whole = self.held + text
        before, found, after = whole.partition(tag)
        if found:
            self.held = ""
            return before, True, after
        keep = next((size for size in range(min(len(tag) - 1, len(whole)), 0, -1) if whole.endswith(tag[:size])), 0)
        self.held = whole[len(whole) - keep :] if keep else ""
        return whole[: len(whole) - keep], False, ""


class ChatStream:
    """Reads one answer."""

    def __init__(self, sink: ChatSink) -> None:
        self.finish_reason: str | None = None
        self.is_reasoning_apart = False  # some of it came as reasoning_content
        self._sink = sink
        self._is_reasoning = False  # in reasoning_content
        self._is_tagged = False  # inside <think> in the content
        self._may_open = True  # nothing but blanks has come
        self._blanks = ""
        self._tag = _Tag()

    def take(self, data: str) -> None:
        """One event's data; StreamError for an error in it, or for what is no event."""
        event = _event(data)
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._sink.counted(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._take_choice(choice, choice.get("delta") or choice.get("message") or {})

    def finish(self) -> None:
        """The stream has ended; StreamError where the answer had not."""
        self.flush()
        if self.finish_reason is None:
            raise StreamError("the answer broke off", may_help=True)

    def flush(self) -> None:
        """Tell what was held back: nothing can become a tag any more."""
        self._say(self._blanks + self._tag.held)
        self._blanks = self._tag.held = ""

    def _take_choice(self, choice: dict[str, Any], delta: Any) -> None:
        if isinstance(delta, dict):
            for name in ("reasoning_content", "reasoning"):
                if isinstance(delta.get(name), str) and delta[name]:
                    self._reason(delta[name])
                    break
            if isinstance(delta.get("content"), str) and delta["content"]:
                self._content(delta["content"])
            if isinstance(delta.get("tool_calls"), list) and delta["tool_calls"]:
                self._sink.called(delta["tool_calls"])
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _reason(self, text: str) -> None:
        self._is_reasoning = self.is_reasoning_apart = True
        self._sink.thought(text)

    def _content(self, text: str) -> None:
        if self._is_reasoning:
            self._is_reasoning = self._may_open = False
            self._sink.thoughts_closed()
        if self._may_open:
            text = self._opened(text)
        if text:
            self._show(text)

    def _opened(self, text: str) -> str:
        """What is left to show once it is known whether the content opens with thoughts; "" while it is not."""
        whole = self._blanks + text
        if not (begun := whole.lstrip()) or (len(begun) < len(THINK_OPEN) and THINK_OPEN.startswith(begun)):
            self._blanks = whole
            return ""
        self._may_open, self._blanks = False, ""
        if not begun.startswith(THINK_OPEN):
            return whole
        self._is_tagged = True
        self._sink.thought("")
        return begun.removeprefix(THINK_OPEN)

    def _show(self, text: str) -> None:
        """Content; inside tagged thoughts up to the tag that closes them."""
        if self._is_tagged:
            thought, is_closed, text = self._tag.split(text, THINK_CLOSE)
            self._say(thought)
            if not is_closed:
                return
            self._is_tagged = False
            self._sink.thoughts_closed()
        self._say(text)

    def _say(self, text: str) -> None:
        if text:
            (self._sink.thought if self._is_tagged else self._sink.said)(text)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _event(data: str) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"the server sent what is no JSON: {data[:100]!r}", may_help=True) from error
    if not isinstance(event, dict):
        raise StreamError(f"the server sent what is no event: {data[:100]!r}", may_help=False)
    if event.get("error"):
        raise StreamError(f"the server failed: {told_error(event)}", may_help=True)
    return event
