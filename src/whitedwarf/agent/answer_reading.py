"""One answer of the engine, followed on the agent's thread: tells what comes, keeps the tokens, says how it was.

Promises: a token is in the transcript before anything is told of it, and what was read of it is told before the next.
"""

import re
import time
from collections.abc import Iterator, Sequence

from whitedwarf.agent.answer_guide import AnswerGuide, Fault
from whitedwarf.agent.answer_text import AnswerText
from whitedwarf.agent.dialogue import Answer
from whitedwarf.agent.events import AnswerEnd, Drawn, Event, Listener, Reading
from whitedwarf.agent.transcript import Transcript
from whitedwarf.conversation.events import BackendReason
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event as EngineEvent
from whitedwarf.engine.request import Finished, FinishReason, Prefilled, Token
from whitedwarf.prompt.special import SpecialToken

_WAIT_S = 1.0
_CALLS_AS_TEXT = re.compile(rf"</({SpecialToken.DSML.value}|{SpecialToken.DSML.value[1:]}) ?(tool_)?calls>\s*\Z")


class AnswerReading:
    """One answer; `read_tokens` of its prompt are in the engine's state for certain."""

    def __init__(self, generation: Generation, guide: AnswerGuide, transcript: Transcript, listen: Listener) -> None:
        self.said = AnswerText()
        self.read_tokens = 0
        self._generation = generation
        self._guide = guide
        self._transcript = transcript
        self._listen = listen
        self._began_s = self._drawing_s = time.monotonic()
        self._num_drawn = 0
        self._reused: int | None = None

    def follow(self) -> Finished:
        """Tell everything as it comes."""
        for event in events_of(self._generation):
            match event:
                case Prefilled():
                    self._tell_reading(event)
                case Token():
                    self._take_token(event.id)
                case Finished():
                    self._tell(self._guide.finish(_backend_reason(event, self._guide.fault)))
                    return event
        raise AssertionError("a generation ends with Finished")

    def answer(self, finished: Finished, *, is_full: bool) -> Answer:
        """What it came to; `is_full`: the context, rather than the limit of an answer, ends one that is too long."""
        said = self.said
        end, fault = _end(finished, said, self._guide.fault, is_full=is_full)
        return Answer(end, said.text, said.reasoning, said.calls, fault, finished.generated_tokens)

    def _tell_reading(self, event: Prefilled) -> None:
        self.read_tokens = event.processed
        if self._reused is None:
            self._reused = event.processed
        self._drawing_s = time.monotonic()
        total, done = event.total - self._reused, event.processed - self._reused
        self._listen(Reading(done, total, self._reused, self._drawing_s - self._began_s))

    def _take_token(self, token: int) -> None:
        self._transcript.extend((token,))
        self._num_drawn += 1
        heard = self._guide.take(_WAIT_S)
        while heard is None and not self._generation.is_finished:
            heard = self._guide.take(_WAIT_S)
        if heard is not None:
            self._tell(heard.events)
            self._listen(Drawn(self._num_drawn, time.monotonic() - self._drawing_s, heard.is_greedy))

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self.said.take(event)
            self._listen(event)


def events_of(generation: Generation) -> Iterator[EngineEvent]:
    """Up to and with `Finished`, whose error is not raised here."""
    while (event := generation.next_event(None)) is not None:
        yield event
        if isinstance(event, Finished):
            return


def _backend_reason(finished: Finished, fault: Fault | None) -> BackendReason:
    """Only an end that the model meant closes what it left open."""
    is_meant = finished.reason is FinishReason.STOP and fault is None
    return BackendReason.STOP if is_meant else BackendReason.LENGTH


def _end(finished: Finished, said: AnswerText, fault: Fault | None, *, is_full: bool) -> tuple[AnswerEnd, str]:
    if finished.reason is FinishReason.CANCELLED:
        return AnswerEnd.INTERRUPTED, ""
    if finished.reason is FinishReason.LENGTH and (fault is None or is_full):
        return AnswerEnd.LENGTH, ""
    if fault is not None:
        return fault.end, fault.text
    if said.calls:
        return AnswerEnd.CALLS, ""
    if _CALLS_AS_TEXT.search(said.text):
        return AnswerEnd.FAULTY, "a block of calls was written as text, which calls nothing"
    return AnswerEnd.DONE, ""
