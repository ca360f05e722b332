"""An answer of a vectors file, parsed and told push by push in its dialect: what parse.jsonl calls `expect`.

Format: tests/golden/recipe/README.md. Everything random or of the clock is left out, as the file says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whitedwarf.cli.recipe_dialects import Dialect, Stream, Told
from whitedwarf.cli.recipe_lines import Line, LineError, Result, member
from whitedwarf.conversation.events import BackendReason, Event
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import NOT_MEASURED, Converted, MessagesReply, PromptUsage, ReplyIdentity
from whitedwarf.protocol.token_log import TokenLog

_IDENTITY = ReplyIdentity(id="resp-1", model="model-x", created=0)


def shown_answer(line: Line, converted: Converted[Any], dialect: Dialect, tokenizer: Tokenizer) -> Result:
    """What is told of the line's chunks."""
    reply = converted.reply
    if isinstance(reply, MessagesReply) and "signature" in line:
        reply = replace(reply, signature=line["signature"])
    tokens = TokenLog(tokenizer)
    call_ids = CallIds(is_thinking=reply.is_thinking, suffix=lambda: "*")
    stream = dialect.stream(_IDENTITY, reply, tokens, call_ids=call_ids)
    run = _Run(OutputParser(converted.parsing, tokenizer), stream, tokens)
    run.push_all(member(line, "chunks", list))
    answer = dialect.answer(_IDENTITY)
    told = [event for push in run.pushes for event in push]
    answer.take(told)
    return {
        "model_version": converted.version.value,
        "per_push": list(map(len, run.pushes)),
        "stopped_early": run.stopped_early,
        "events": told,
        **_shown_names(dialect, told),
        "final": answer.body(),
    }


def _shown_names(dialect: Dialect, told: Sequence[Told]) -> Result:
    name = dialect.sse_name
    return {} if name is None else {"sse_names_match_type": all(name(event) == event["type"] for event in told)}


@dataclass(slots=True)
class _Run:
    """Chunks pushed one after another, and what each push told; the last is the end of the input."""

    parser: OutputParser
    stream: Stream
    tokens: TokenLog
    pushes: list[list[Told]] = field(default_factory=list)
    stopped_early: bool = False
    is_begun: bool = False

    def push_all(self, chunks: Sequence[Any]) -> None:
        """Everything, until the answer has ended."""
        for chunk in chunks:
            if self.parser.is_finished:
                self.stopped_early = True
                break
            self.pushes.append(self._push(chunk))
        self.pushes.append(self._begin() + self.stream.take(self.parser.finish()))

    def _begin(self, usage: PromptUsage = NOT_MEASURED, fingerprint: str | None = None) -> list[Told]:
        """The first events, once: what is known of the prompt only later is not told."""
        if self.is_begun:
            return []
        self.is_begun = True
        return self.stream.begin(usage, fingerprint)

    def _push(self, chunk: Any) -> list[Told]:
        try:
            match chunk:
                case ["ready", dict(facts)]:
                    return self._ready(facts)
                case _:
                    events = self._events(chunk)
                    is_heard = self.parser.has_text or self.parser.is_finished
                    return self._begin() + self.stream.take(events) if is_heard else []
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise LineError(f"the chunk {chunk!r:.80} cannot be used: {error}") from error

    def _ready(self, facts: dict[str, Any]) -> list[Told]:
        counts = [facts.get(name, 0) for name in ("prompt_tokens", "cache")]
        if not all(isinstance(count, int) for count in counts):
            raise ValueError("expected whole numbers of tokens")
        usage = PromptUsage(*counts) if facts else NOT_MEASURED
        return self._begin(usage, facts.get("fp"))

    def _events(self, chunk: Any) -> list[Event]:
        match chunk:
            case ["text", str(text), int(count)]:
                return self.parser.feed_text(text, count)
            case ["tokens", list(ids), *scores] if len(scores) < 2:
                self._log(ids, scores[0] if scores else None)
                return self.parser.feed_ids(ids)
            case ["finish", str(reason)]:
                return self.parser.finish(BackendReason(reason))
        raise ValueError("expected ready, text, tokens or finish with what belongs to it")

    def _log(self, ids: Sequence[int], scores: Any) -> None:
        if scores is None:
            self.tokens.skip(len(ids))
            return
        for token_id, (logprob, top) in zip(ids, scores, strict=True):
            self.tokens.add(token_id, logprob, [(other, value) for other, value in top])
