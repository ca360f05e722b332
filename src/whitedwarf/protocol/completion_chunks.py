"""Raw output to legacy Completions chunks, and chunks added up to the whole body: the dialect has one shape for both.

Promises: chunks that concatenate to exactly what the model wrote, thoughts and closing tag included; one with a finish
reason at the end, or one error. Events come from `prompt/plain_output.py`; an `OutputParser` would take the text apart.
Spec: product.md B.6, B.15.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from whitedwarf.conversation.events import Event, Finished, FinishReason, TextDelta
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.converted import NOT_MEASURED, CompletionReply, PromptUsage, ReplyIdentity
from whitedwarf.protocol.openai_usage import openai_usage
from whitedwarf.protocol.token_log import ScoredToken, TokenLog

SSE_DONE = "[DONE]"
Chunk = dict[str, Json]
_FINISH_REASONS = {FinishReason.LENGTH: "length", FinishReason.CONTENT_FILTER: "content_filter"}


class CompletionStream:
    """The chunks of one answer. With `tokens`, chunks carry their log probabilities in the dialect's own form."""

    def __init__(self, identity: ReplyIdentity, reply: CompletionReply, tokens: TokenLog | None = None) -> None:
        self._identity = identity
        self._reply = reply
        self._tokens = tokens
        self._fingerprint: str | None = None
        self._usage = NOT_MEASURED
        self._written = 0  # characters so far
        self.is_over = False
        """Whether the last event was told; nothing comes after it."""

    @property
    def call_ids(self) -> Mapping[int, str]:
        """No call is told as one."""
        return {}

    def begin(self, usage: PromptUsage = NOT_MEASURED, fingerprint: str | None = None) -> list[Chunk]:
        """The echoed prompt, where one was asked for."""
        self._usage = usage
        self._fingerprint = fingerprint
        echoed = self._reply.echoed_prompt
        return [self._text_chunk(echoed, None)] if echoed else []

    def measure(self, usage: PromptUsage) -> None:
        """What turned out since `begin` about the prompt."""
        self._usage = usage

    def take(self, events: Iterable[Event]) -> list[Chunk]:
        """The chunks that tell these events; the Finished event gives the last ones."""
        return [chunk for event in events for chunk in self._told(event)]

    def fail(self, message: str, error_type: str = "server_error") -> list[Chunk]:
        """The one chunk that ends an answer whose generation failed; nothing if it has ended already."""
        if self.is_over:
            return []
        self.is_over = True
        return [{"error": {"message": message, "type": error_type, "param": None, "code": error_type}}]

    def keepalive(self) -> list[Chunk]:
        """A chunk that says nothing."""
        return [] if self.is_over else [self._frame([], None)]

    def _told(self, event: Event) -> list[Chunk]:
        match event:
            case TextDelta(text, span) if not self.is_over:
                scored = self._tokens.between(span) if self._tokens is not None else None
                return [self._text_chunk(text, scored)]
            case Finished() if not self.is_over:
                return self._end(event)
        return []

    def _text_chunk(self, text: str, scored: list[ScoredToken] | None) -> Chunk:
        logprobs = None if scored is None else _logprobs(scored, self._written)
        self._written += len(text)
        return self._frame([_choice(text, logprobs, None)], None)

    def _end(self, event: Finished) -> list[Chunk]:
        self.is_over = True
        last = [_choice("", None, _FINISH_REASONS.get(event.reason, "stop"))]
        usage = openai_usage(self._usage, event, is_thinking=False)
        if self._reply.usage_chunk:
            return [self._frame(last, None), self._frame([], usage)]
        return [self._frame(last, usage)]

    def _frame(self, choices: list[dict[str, Json]], usage: Json) -> Chunk:
        return {
            "id": self._identity.id,
            "object": "text_completion",
            "created": self._identity.created,
            "model": self._identity.model,
            "system_fingerprint": self._fingerprint,
            "choices": choices,
            "usage": usage,
        }


class CompletionAnswer:
    """Feed it all chunks of one answer; chunks that only keep the connection alive may be among them."""

    def __init__(self, identity: ReplyIdentity) -> None:
        self._identity = identity
        self._pieces: list[str] = []
        self._logprobs: dict[str, list[Json]] = {}
        self._finish_reason: str | None = None
        self._usage: Json = None
        self._fingerprint: Json = None

    def take(self, chunks: Iterable[Mapping[str, Any]]) -> None:
        """More chunks; an error is left to whoever sends the status."""
        for chunk in chunks:
            if "error" in chunk:
                continue
            self._fingerprint = chunk["system_fingerprint"]
            self._usage = chunk["usage"] or self._usage
            for choice in chunk["choices"]:
                self._take_choice(choice)

    def body(self) -> dict[str, Json]:
        """The whole answer."""
        choice = _choice("".join(self._pieces), self._logprobs or None, self._finish_reason)
        return {
            "id": self._identity.id,
            "object": "text_completion",
            "created": self._identity.created,
            "model": self._identity.model,
            "choices": [choice],
            "usage": self._usage,
            "system_fingerprint": self._fingerprint,
        }

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        self._pieces.append(choice["text"])
        self._finish_reason = choice["finish_reason"] or self._finish_reason
        for key, entries in (choice["logprobs"] or {}).items():
            self._logprobs.setdefault(key, []).extend(entries)


def _choice(text: str, logprobs: Json, finish_reason: str | None) -> dict[str, Json]:
    return {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish_reason}


def _logprobs(scored: list[ScoredToken], start: int) -> dict[str, Json]:
    """Parallel lists; a token that ends inside a character begins where that character does."""
    offsets, seen = [], b""
    for token in scored:
        offsets.append(start + len(seen.decode("utf-8", "ignore")))
        seen += token.data
    return {
        "tokens": [token.text for token in scored],
        "token_logprobs": [token.logprob for token in scored],
        "top_logprobs": [{other.text: other.logprob for other in token.top} for token in scored],
        "text_offset": list[Json](offsets),
    }
