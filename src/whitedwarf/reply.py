"""One answer on its way: the engine's events become the dialect's, and what was said is remembered.

Promises: an answer that was begun ends with exactly one last event; usage is what the engine says it was. Does not know
HTTP. One answer is told by one thread at a time.
"""

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from whitedwarf.conversation.events import BackendReason
from whitedwarf.conversation.events import Event as Parsed
from whitedwarf.engine.event_feed import Source
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished, FinishReason, GenerateOptions, Prefilled, Token
from whitedwarf.errors import EngineClosedError, WhitedwarfError
from whitedwarf.prompt.grammar import Grammar
from whitedwarf.prompt.tokenizer import Ids, Tokenizer
from whitedwarf.protocol.converted import Converted, PromptUsage, ReplyIdentity
from whitedwarf.protocol.dialects import Dialect, Told
from whitedwarf.protocol.failures import Failure
from whitedwarf.protocol.past import Past, PromptIds
from whitedwarf.protocol.recalled import NOTHING_RECALLED, Recalled
from whitedwarf.protocol.said import Said
from whitedwarf.protocol.token_log import TokenLog

log = logging.getLogger(__name__)


class Witness(Protocol):
    """Looks on while an answer is told: metrics, log, trace. It is quick and never raises."""

    def hears(self, event: Event) -> None:
        """The engine's events, each before what it leads to."""

    def reads(self, said: Sequence[Parsed]) -> None:
        """What the parser made of them."""

    def beside(self, choice: int) -> "Witness":
        """Who looks on at another choice of the same request."""


class Answering(Protocol):
    """What a server tells: one answer (`Reply`), or several to the same prompt (choices.py)."""

    failure: Failure | None

    @property
    def generation(self) -> Source[Any]: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def generated_tokens(self) -> int: ...
    @property
    def finished(self) -> Finished | None: ...
    def watched_by(self, witness: Witness) -> None: ...
    def begin(self) -> list[Told]: ...
    def keepalive(self) -> list[Told]: ...
    def take(self, events: Iterable[Any]) -> list[Told]: ...
    def fail(self, error: WhitedwarfError) -> list[Told]: ...
    def leave(self) -> None: ...
    def collect(self, told: Iterable[Told]) -> None: ...
    def body(self) -> Told: ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A request that can be answered; with a `form`, the answer is held to it, with `offered` its calls are."""

    dialect: Dialect
    converted: Converted[Any]
    prompt: PromptIds
    options: GenerateOptions
    recalled: Recalled = NOTHING_RECALLED
    form: Grammar | None = None
    offered: Grammar | None = None

    @property
    def ids(self) -> Ids:
        """The prompt's ids as they are run."""
        return self.prompt.run

    @property
    def is_streamed(self) -> bool:
        """Whether the client wants the answer piece by piece."""
        return self.converted.is_streamed

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each thing that was asked for and is not done."""
        return self.converted.warnings


class Reply:
    """One answer: the engine's events become the dialect's. Whoever holds it calls `leave` in the end.

    `failure` says why there is no answer, once that is known; the counts grow with it. `finished` is
    the engine's last word, if it was waited for. `identity` is of the request: its other choices share it.
    """

    def __init__(
        self, prepared: Prepared, generation: Generation, tokenizer: Tokenizer, past: Past, identity: ReplyIdentity
    ) -> None:
        converted, dialect = prepared.converted, prepared.dialect
        self.generation = generation
        self.failure: Failure | None = None
        self.prompt_tokens = len(prepared.ids)
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.finished: Finished | None = None
        self.witness: Witness | None = None
        self._prepared = prepared
        self._tokenizer = tokenizer
        self._past = past
        self._ids: list[int] = []  # drawn so far
        self._said = Said(is_thinking=converted.conversation.is_thinking)
        self._tokens = None if prepared.options.logprobs is None else TokenLog(tokenizer)
        self._parser = dialect.parser(converted.parsing, tokenizer)
        self._stream = dialect.stream(identity, converted.reply, self._tokens)
        self._whole = dialect.answer(identity)
        self._is_measured = False

    @property
    def is_over(self) -> bool:
        """Whether the last event was told."""
        return self._stream.is_over

    def watched_by(self, witness: Witness) -> None:
        """Have it look on; before anything is taken."""
        self.witness = witness

    def begin(self) -> list[Told]:
        """The first events, before anything is known but the prompt's length."""
        return self._stream.begin(PromptUsage(self.prompt_tokens))

    def keepalive(self) -> list[Told]:
        """A sign of life in the dialect's own form."""
        return self._stream.keepalive()

    def take(self, events: Iterable[Event]) -> list[Told]:
        """What tells these events of the engine."""
        return [told for event in events for told in self._witnessed(event)]

    def fail(self, error: WhitedwarfError) -> list[Told]:
        """The last event of an answer that cannot go on; none where it is over."""
        if self.is_over:
            return []
        self.failure = Failure.of(error)
        return self._stream.fail(self.failure.message)

    def leave(self) -> None:
        """Nobody listens any more. What was drawn so far may come back as the beginning of an answer."""
        self.generation.cancel()
        if not self.is_over and self._ids:
            self._past.remember_cut(self._prepared.prompt, self._ids)

    def collect(self, told: Iterable[Told]) -> None:
        """This belongs to the `body`. Told pieces are not kept: a long answer's are a hundred thousand objects."""
        self._whole.take(told)

    def body(self) -> Told:
        """All that was collected; calls that the model did not complete are left out (demand.md P21)."""
        return self._whole.body(without_calls=getattr(self._stream, "unfinished_calls", ()))

    def _witnessed(self, event: Event) -> list[Told]:
        if self.witness is not None:
            self.witness.hears(event)
        return self._told(event)

    def _told(self, event: Event) -> list[Told]:
        match event:
            case Prefilled(processed) if not self._is_measured:
                self._measure(processed)
            case Token():
                return self._take_token(event)
            case Finished():
                return self._finish(event)
        return []

    def _measure(self, reused_tokens: int) -> None:
        self._is_measured = True
        self.cached_tokens = reused_tokens
        self._stream.measure(PromptUsage(self.prompt_tokens, reused_tokens))

    def _take_token(self, token: Token) -> list[Told]:
        if self._parser.is_finished:
            return []
        self.generated_tokens += 1
        self._ids.append(token.id)
        if self._tokens is not None:
            self._tokens.add(token.id, token.logprob or 0.0, [(one.id, one.logprob) for one in token.best])
        told = self._stream.take(self._read(self._parser.feed_ids((token.id,))))
        if self._parser.is_finished:  # a stop string, or a call without end
            self.generation.cancel()
        return told

    def _finish(self, finished: Finished) -> list[Told]:
        self.finished = finished
        if self.is_over:
            return []
        reason = _REASONS.get(finished.reason)
        if reason is None:
            return self.fail(finished.error or EngineClosedError("the server is shutting down: ask again later"))
        self._measure(finished.reused_tokens)
        told = self._stream.take(self._read(self._parser.finish(reason)))
        self._remember()
        return told

    def _remember(self) -> None:
        """Before the client can come back with what it was told."""
        try:
            said = self._said.message(self._stream.call_ids, self._ids, self._tokenizer)
            self._past.remember(self._prepared.converted.conversation, self._prepared.prompt, self._ids, said)
        except Exception:  # out of memory, or a bug: the answer itself is whole, and its last event must come
            log.exception("answer_not_remembered")

    def _read(self, said: Sequence[Parsed]) -> Sequence[Parsed]:
        self._said.take(said)
        if self.witness is not None and said:
            self.witness.reads(said)
        return said


_REASONS = {FinishReason.STOP: BackendReason.STOP, FinishReason.LENGTH: BackendReason.LENGTH}


def new_identity(dialect: Dialect, model: str) -> ReplyIdentity:
    """What nobody can guess, from now."""
    return ReplyIdentity(dialect.id_prefix + secrets.token_hex(12), model, int(time.time()))
