"""What a Chat Completions server streams, read: lines to events, events to thoughts and answer. Pure.

Thoughts come as `reasoning_content` (or `reasoning`), or in the content between `<think>` and `</think>`; both are
understood, in any split.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.budget import CloseKind, ThinkClose
from whitedwarf.evals.endpoint.complaint import told_error
from whitedwarf.evals.extract import THINK_CLOSE
from whitedwarf.evals.grade import ThinkMode

THINK_OPEN = "<think>"
LONGEST_LINE = 16 << 20  # bytes; a server that sends more in one event is none
_DONE = "[DONE]"
_CLOSED = ThinkClose(CloseKind.NATURAL)  # where exactly, only the server knows


class StreamError(WhitedwarfError):
    """The server told of an error inside its answer, or sent what is none. `may_help`: asking again may."""

    def __init__(self, text: str, *, may_help: bool) -> None:
        super().__init__(text)
        self.may_help = may_help


class EventLines:
    """Bytes as they come, to the data of server-sent events. Only line ends of the protocol divide lines: a text in
    JSON may hold others, such as U+2028."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of each event line that is complete now, without the final [DONE]."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise StreamError(f"the server sent a line of more than {LONGEST_LINE} bytes", may_help=False)
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name == b"data" and (text := value.decode("utf-8", "replace").strip()) != _DONE and text:
                yield text


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


class ChatReader:
    """Writes one answer. `thinks`: the mode to note where the server does think."""

    def __init__(self, answer: Answer, thinks: ThinkMode) -> None:
        self.finish_reason: str | None = None
        self._answer = answer
        self._mode: ThinkMode = "max" if thinks == "max" else "high"
        self._is_reasoning = False  # in reasoning_content
        self._is_tagged = False  # inside <think> in the content
        self._may_open = True  # nothing but blanks has come
        self._blanks = ""
        self._tag = _Tag()
        self._num_deltas = 0
        self._has_usage = False

    def take(self, data: str) -> None:
        """One event's data; StreamError for an error in it, or for what is no event."""
        event = _event(data)
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._take_usage(usage)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._take_choice(choice, choice.get("delta") or choice.get("message") or {})

    def finish(self) -> None:
        """The stream has ended; StreamError where the answer had not."""
        self._say(self._blanks + self._tag.held, is_thinking=self._is_tagged)
        self._blanks = self._tag.held = ""
        self._answer.is_cut = self.finish_reason == "length"
        if self.finish_reason is None:
            raise StreamError("the answer broke off", may_help=True)

    def _take_choice(self, choice: dict[str, Any], delta: Any) -> None:
        if isinstance(delta, dict):
            for name in ("reasoning_content", "reasoning"):
                if isinstance(delta.get(name), str) and delta[name]:
                    self._reason(delta[name])
                    break
            if isinstance(delta.get("content"), str) and delta["content"]:
                self._content(delta["content"])
        if isinstance(choice.get("finish_reason"), str):
            self.finish_reason = choice["finish_reason"]

    def _take_usage(self, usage: dict[str, Any]) -> None:
        prompt, generated = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if isinstance(prompt, int) and not isinstance(prompt, bool):
            self._answer.prompt_tokens = prompt
        if isinstance(generated, int) and not isinstance(generated, bool):
            self._answer.generated_tokens, self._has_usage = generated, True

    def _reason(self, text: str) -> None:
        self._is_reasoning = True
        self._note_thinking()
        self._say(text, is_thinking=True)

    def _content(self, text: str) -> None:
        if self._is_reasoning:
            self._is_reasoning = self._may_open = False
            self._close()
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
        self._note_thinking()
        return begun.removeprefix(THINK_OPEN)

    def _show(self, text: str) -> None:
        """Content; inside tagged thoughts up to the tag that closes them."""
        if self._is_tagged:
            thought, is_closed, text = self._tag.split(text, THINK_CLOSE)
            self._say(thought, is_thinking=True)
            if not is_closed:
                return
            self._is_tagged = False
            self._close()
        self._say(text, is_thinking=False)

    def _say(self, text: str, *, is_thinking: bool) -> None:
        if text:
            self._num_deltas += 1
            if not self._has_usage:
                self._answer.generated_tokens = self._num_deltas
            self._answer.say(text.encode("utf-8", "replace"), text, is_thinking=is_thinking)

    def _close(self) -> None:
        self._answer.close_thoughts()
        self._answer.closed = _CLOSED

    def _note_thinking(self) -> None:
        self._answer.think_mode = self._mode


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
