"""One request's block of the trace: a witness of its answer (server/trace.py says how blocks share a file).

Promises: control tokens are visible as they are spelt; what the model said is there in full, before what was made of
it. The decision about the cache comes at the end, because only then all of it is known. Does not know HTTP.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    ReasoningDelta,
    Repair,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.conversation.events import Event as Said
from whitedwarf.conversation.events import Finished as SaidAll
from whitedwarf.engine.request import Event, Finished, Prefilled, Token
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.failures import Failure
from whitedwarf.reply import Prepared
from whitedwarf.server.parting import parting_table
from whitedwarf.server.trace import BLOCK_START, TraceFile


@dataclass(slots=True)
class _Message:
    """What the parser made of the answer."""

    finish: str = ""
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[ToolCallFinished] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ChoiceTrace:
    """What was drawn for another choice than the first: told at the block's end, for it comes between the tokens."""

    number: int
    ids: list[int] = field(default_factory=list)
    reason: str = "none"

    def hears(self, event: Event) -> None:
        """An event of the engine."""
        match event:
            case Token(token_id):
                self.ids.append(token_id)
            case Finished(reason, stop_id=stop_id):
                self.reason = reason
                self.ids += [] if stop_id is None else [stop_id]

    def told(self, tokenizer: Tokenizer) -> str:
        """Its section."""
        title = f"choice {self.number}: finish: {self.reason}, {len(self.ids)} tokens"
        return _section(title, tokenizer.decode(self.ids))


class RequestTrace:
    """Write `begin` first and `end` last; between them it looks on."""

    def __init__(self, file: TraceFile, number: int, prepared: Prepared, tokenizer: Tokenizer) -> None:
        self._file = file
        self._number = number
        self._prepared = prepared
        self._tokenizer = tokenizer
        self._decoder = tokenizer.stream_decoder()
        self._message = _Message()
        self._started_s = time.monotonic()
        self._num_generated = 0
        self._has_begun = False
        self._finished: Finished | None = None
        self._choices: list[ChoiceTrace] = []  # beside the first

    def begin(self, body: bytes) -> None:
        """What was asked."""
        rendered = self._tokenizer.decode(self._prepared.ids.tolist())
        self._write(
            _title(self._number)
            + _facts(_settings(self._prepared))
            + _section("raw request", body.decode("utf-8", "backslashreplace"))
            + _section("rendered prompt", rendered)
            + _section("generated text", "")
        )

    def hears(self, event: Event) -> None:
        """An event of the engine."""
        match event:
            case Prefilled(processed, total):
                self._hear_prefill(processed, total)
            case Token(token_id):
                self._num_generated += 1
                self._write(self._decoder.feed(token_id))
            case Finished():
                self._finished = event
                ending = "" if event.stop_id is None else self._tokenizer.decode([event.stop_id])
                self._write(self._decoder.finish() + ending)

    def reads(self, said: Sequence[Said]) -> None:
        """What the parser made of it."""
        for event in said:
            self._read(event)

    def beside(self, choice: int) -> ChoiceTrace:
        """Looks on at another choice of the same request."""
        self._choices.append(ChoiceTrace(choice))
        return self._choices[-1]

    def end(self, end: str, failure: Failure | None) -> None:
        """The rest: `end` is done, failed or cancelled."""
        self._write(
            _section("cache decision", "") + self._cache_decision()
            + _section("parsed message", "") + self._parsed(end, failure)
            + "".join(choice.told(self._tokenizer) for choice in self._choices)
            + f"===== end request {self._number} =====\n\n"
        )  # fmt: skip

    def _write(self, text: str) -> None:
        if text:
            self._file.write(self._number, text)

    def _hear_prefill(self, processed: int, total: int) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._note(f"prefill begins: cached_tokens={processed} prompt_tokens={total}")
        if processed == total:
            self._note(f"prefill done after {time.monotonic() - self._started_s:.3f} s")

    def _read(self, event: Said) -> None:
        message = self._message
        match event:
            case ReasoningDelta(text):
                message.reasoning.append(text)
            case TextDelta(text):
                message.content.append(text)
            case ToolCallStarted(index, name):
                self._note(f"call {index} begins: {name}")
            case ArgumentsDelta():
                pass
            case ToolCallFinished(index):
                message.calls.append(event)
                self._note(f"call {index} is complete")
            case Repair(kind):
                message.repairs.append(kind)
                self._note(f"repair: {kind}")
            case SaidAll(reason):
                message.finish = reason

    def _note(self, text: str) -> None:
        self._write(f"\n--- trace: {text} ---\n")

    def _cache_decision(self) -> str:
        finished, recalled = self._finished, self._prepared.recalled
        told = f"calls_from_memory: {recalled.from_memory}\ncalls_from_disk: {recalled.from_disk}\n"
        told += f"calls_rewritten: {recalled.rewritten}\ncalls_unknown: {recalled.unknown}\n"
        if finished is None:
            return told + "the engine was not heard to the end\n"
        return (
            told
            + f"reuse: {finished.reuse}\n"
            + f"miss_reason: {finished.miss_reason or 'none'}\n"
            + f"cached_tokens: {finished.reused_tokens}\n"
            + f"common_tokens: {finished.common_tokens}\n"
            + parting_table(self._prepared.ids, finished.common_tokens, finished.seen_next, self._tokenizer)
        )

    def _parsed(self, end: str, failure: Failure | None) -> str:
        message = self._message
        calls = "".join(f"call {call.index} {call.name}: {call.arguments}\n" for call in message.calls)
        return (
            f"end: {end}\n"
            + (f"failure: {failure.status} {failure.message}\n" if failure else "")
            + f"finish: {message.finish or 'none'}\n"
            + f"generated_tokens: {self._num_generated}\n"
            + f"repairs: {', '.join(message.repairs) or 'none'}\n"
            + f"elapsed_s: {time.monotonic() - self._started_s:.3f}\n"
            + _section("reasoning", "".join(message.reasoning))
            + _section("content", "".join(message.content))
            + _section("tool calls", calls)
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace file and what makes its ids readable."""

    file: TraceFile
    tokenizer: Tokenizer

    def begin(self, number: int, prepared: Prepared, body: bytes) -> RequestTrace:
        """The block of a request that is about to be queued; for a long prompt this takes a while."""
        trace = RequestTrace(self.file, number, prepared, self.tokenizer)
        trace.begin(body)
        return trace

    def refused(self, number: int, kind: str, body: bytes, failure: Failure) -> None:
        """The block of a request that never got so far."""
        told = _title(number) + f"kind: {kind}\nrefused: {failure.status} {failure.message}\n"
        raw = _section("raw request", body.decode("utf-8", "backslashreplace"))
        self.file.write(number, f"{told}{raw}===== end request {number} =====\n\n")


def _title(number: int) -> str:
    return f"{BLOCK_START}{number} {time.strftime('%Y-%m-%d %H:%M:%S')} =====\n"


def _section(name: str, text: str) -> str:
    end = "\n" if text and not text.endswith("\n") else ""
    return f"\n--- {name} ---\n{text}{end}"


def _facts(facts: dict[str, object]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in facts.items())


def _settings(prepared: Prepared) -> dict[str, object]:
    converted, options = prepared.converted, prepared.options
    conversation, sampling = converted.conversation, options.sampling
    thinking = (conversation.reasoning_effort or "high") if conversation.is_thinking else "none"
    return {
        "kind": prepared.dialect.name,
        "model": converted.model,
        "stream": _word(is_so=prepared.is_streamed),
        "tools": len(conversation.tools),
        "think_mode": thinking,
        "prompt_tokens": len(prepared.ids),
        "effective_prompt_tokens": len(prepared.ids),
        "max_tokens": options.max_tokens,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": "random" if sampling.seed is None else sampling.seed,
        "stream_include_usage": _word(is_so=getattr(converted.reply, "usage_chunk", False)),
        "unknown_fields": ", ".join(converted.unknown_fields) or "none",
        "warnings": " ".join(prepared.warnings) or "none",
    }


def _word(*, is_so: bool) -> str:
    return "yes" if is_so else "no"
