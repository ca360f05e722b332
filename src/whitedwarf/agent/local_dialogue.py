"""A conversation with the model in this process: its transcript of tokens is what the engine's session has read.

Promises: of `Dialogue`. Every token that was drawn stands in the transcript as it was drawn, and an answer that was cut
is closed, so what follows is read and nothing before it ever again. `used_tokens` is exact.
"""

import copy
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from whitedwarf.agent.answer_guide import AnswerGuide
from whitedwarf.agent.answer_reading import AnswerReading, events_of
from whitedwarf.agent.auto_upto import AutoUpto
from whitedwarf.agent.dialogue import Answer, Checks, Result
from whitedwarf.agent.events import AnswerEnd, Compacting, Listener
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.transcript import Ids, Transcript
from whitedwarf.agent.turns import Segments, Turns
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Chooser, Guide
from whitedwarf.engine.request import GREEDY, Finished, FinishReason, GenerateOptions, Prefilled, Token
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import Cancelled, ContextOverflowError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

CLOSING_TOKENS = 2
MIN_SUMMARY_ROOM = 256
SUMMARY_TOKENS = 768  # no answer takes them: a summary can be asked for behind each


class SessionEngine(Protocol):
    """engine.Engine, or a ScriptedEngine in its place."""

    @property
    def context_length(self) -> int: ...

    def new_session(self, saved: SessionSnapshot | None = None) -> Any: ...

    def snapshot(self, session: Any) -> SessionSnapshot: ...

    def submit(
        self,
        ids: Sequence[int] | Ids,
        options: GenerateOptions | None = None,
        *,
        session: Any = None,
        guide: Guide | None = None,
        chooser: Chooser | None = None,
    ) -> Generation: ...


class LocalDialogue:
    """The `Dialogue` over an engine; `session` is the engine's, of which nobody else may make use."""

    def __init__(
        self, engine: SessionEngine, tokenizer: Tokenizer, version: ModelVersion, settings: AgentSettings
    ) -> None:
        self._session: Any = engine.new_session()
        self.settings = settings
        self._engine = engine
        self._tokenizer = tokenizer
        self._version = version
        self._thinking = settings.thinking.within(engine.context_length)
        self._is_thinking = self._thinking.is_on
        self._turns = Turns(version)
        self._transcript = Transcript()
        self._pending: Segments = []  # said, but not in the transcript yet: neighbouring texts are tokenised as one
        self._pending_ids: list[int] | None = []
        self._system = ""
        self._tools: tuple[ToolDefinition, ...] = ()
        self._opening_state: SessionSnapshot | None = None
        self._owes_syntax = False  # the last answer's calls could not be read
        self._in_hand: Generation | None = None
        self._lock = threading.Lock()  # guards what is in hand
        self._eos, self._think_close, self._dsml, self._user = (
            tokenizer.special_id(token)
            for token in (SpecialToken.EOS, SpecialToken.THINK_CLOSE, SpecialToken.DSML, SpecialToken.USER)
        )

    @property
    def context_length(self) -> int:
        """Tokens at most."""
        return self._engine.context_length

    @property
    def used_tokens(self) -> int:
        """All that was said."""
        return len(self._transcript) + len(self._said_ids())

    @property
    def is_thinking(self) -> bool:
        """Whether the next answer begins with a thought."""
        return self._is_thinking

    @is_thinking.setter
    def is_thinking(self, value: bool) -> None:
        self._is_thinking = value

    @property
    def session(self) -> Any:
        """The engine's, with what it has read. Another one may be of another model: nothing is kept beside it."""
        return self._session

    @session.setter
    def session(self, value: Any) -> None:
        self._session, self._opening_state = value, None

    @property
    def transcript(self) -> Transcript:
        """All that was said, in tokens."""
        self._transcript.extend(self._said_ids())
        self._pending, self._pending_ids = [], []
        return self._transcript

    @property
    def thinking(self) -> Thinking:
        """How hard it thinks; what the opening says of that counts from the next session on."""
        return self._thinking

    @thinking.setter
    def thinking(self, value: Thinking) -> None:
        self._thinking = value.within(self.context_length)
        self._is_thinking = self._thinking.is_on

    @property
    def ids(self) -> Ids:
        """All that was said, as it would be asked now; to look at between two things that are said."""
        return np.array([*self._transcript.ids.tolist(), *self._said_ids()], np.int32)

    @property
    def opening_length(self) -> int:
        """How many tokens the system's part at the beginning has."""
        ids = self.transcript.ids
        marks = {SpecialToken.USER, SpecialToken.ASSISTANT, SpecialToken.LATEST_REMINDER, SpecialToken.SYSTEM}
        known = self._tokenizer.vocabulary.special_ids
        begins = {known[token] for token in marks if token in known}
        opens_so = self._version is ModelVersion.V41 and ids[1:2].tolist() == [known.get(SpecialToken.SYSTEM)]
        later = (place for place in range(2 if opens_so else 1, len(ids)) if int(ids[place]) in begins)
        return next(later, len(ids))

    def begin(self, system: str, tools: Sequence[ToolDefinition], extra: str) -> None:
        """A new, empty conversation, in a session of its own."""
        self._system = f"{system}\n\n{extra}" if extra else system
        self._tools = tuple(tools)
        self._transcript = Transcript()
        self._pending, self._pending_ids = [], []
        self.session = self._engine.new_session()
        self._say(self._turns.opening(self._system, self._tools, self._thinking))

    def resume(self, ids: Sequence[int], session: Any) -> None:
        """Go on with a conversation that was kept, whose last answer is closed, and with what the engine read of it."""
        self._transcript = Transcript(ids)
        self._pending, self._pending_ids = [], []
        self._turns = Turns(self._version)
        self.session = session

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text))

    def say(self, text: str) -> None:
        """The user's words."""
        self._say(self._turns.user(text))

    def instruct(self, text: str) -> None:
        """A line of the system's."""
        self._say(self._turns.instruction(text))

    def remind(self, text: str) -> None:
        """The system's part once more."""
        self._say(self._turns.reminder(text, self._system, self._tools))

    def report(self, results: Sequence[Result], note: str = "") -> None:
        """What the calls gave; a note stands where the result of the call that was at fault would stand."""
        if note and self._owes_syntax:
            note += self._turns.syntax
        self._say(self._turns.results([*[result.text for result in results], *([note] if note else [])]))

    def answer(self, listen: Listener, checks: Checks, max_tokens: int) -> Answer:
        """Have the model answer."""
        begin = len(self.transcript)
        prompt = self._prompt(self._turns.answer_start(is_thinking=self._is_thinking))
        guide = AnswerGuide(self._tokenizer, self._parse_options(), checks)
        chooser = AutoUpto(self._tokenizer, guide, checks, self.settings.sampling)
        room = self._room(prompt, CLOSING_TOKENS + min(SUMMARY_TOKENS, self.context_length // 10))
        options = GenerateOptions(
            max_tokens=min(max_tokens, room),
            stop_ids=frozenset({self._eos}),
            sampling=self.settings.sampling,
        )
        self._keep_opening()
        with self._submitted(prompt, options, self._session, guide, chooser) as generation:
            self._transcript.extend(prompt[begin:])
            reading = AnswerReading(generation, guide, self._transcript, listen)
            finished = reading.follow()
        self._close(finished, begin, reading.read_tokens)
        if finished.error is not None:
            raise finished.error
        answer = reading.answer(finished, is_full=room <= max_tokens)
        self._owes_syntax = answer.end is AnswerEnd.FAULTY
        return answer

    def interrupt(self) -> None:
        """End what is in hand, from any thread."""
        with self._lock:
            if self._in_hand is not None:
                self._in_hand.cancel()

    def summarise(self, request: str, max_tokens: int, listen: Listener) -> str:
        """The likeliest answer to a request that leaves no trace; Cancelled when it is interrupted."""
        turns = copy.copy(self._turns)
        prompt = self._prompt([*turns.user(request), *turns.answer_start(is_thinking=False)])
        room = self._room(prompt, 0)
        if room < MIN_SUMMARY_ROOM:
            raise ContextOverflowError(f"a summary needs {MIN_SUMMARY_ROOM} free tokens, the context has {room} left")
        limit = min(max_tokens, room)
        options = GenerateOptions(
            max_tokens=limit,
            stop_ids=frozenset({self._eos, self._think_close, self._dsml}),
            sampling=GREEDY,
        )
        ids: list[int] = []
        saved = self._engine.snapshot(self._session)
        try:
            with self._submitted(prompt, options, self._session) as generation:
                for event in events_of(generation):
                    if isinstance(event, Token):
                        ids.append(event.id)
                        listen(Compacting("summary", len(ids), limit))
        finally:
            self._session = self._engine.new_session(saved)
        text = self._plain_text(ids).strip()
        is_call = _checked_end(generation).stop_id == self._dsml
        return text.removesuffix("<").rstrip() if is_call else text  # its tag had begun

    def shorten(self, summary: str, keep_tokens: int, listen: Listener) -> None:
        """Drop all but the opening and the tail; Cancelled, or another error, keeps everything, read as it is."""
        ids = self.transcript.ids
        tail = self._tail_start(keep_tokens)
        turns = Turns(self._version)
        prompt = [
            *ids[: self.opening_length].tolist(),
            *self._tokenizer.encode_segments(turns.instruction(summary)),
            *ids[tail:].tolist(),
        ]
        options, session = GenerateOptions(max_tokens=0), self._engine.new_session(self._opening_state)
        with self._submitted(prompt, options, session) as generation:
            for event in events_of(generation):
                if isinstance(event, Prefilled):
                    listen(Compacting("rebuild", event.processed, event.total))
        _checked_end(generation)
        self._transcript, self._session = Transcript(prompt), session
        if tail == len(ids):
            self._turns = turns

    def holding(self, generation: Generation) -> "_InHand":
        """While this is entered, `interrupt` ends the generation; it is over afterwards."""
        return _InHand(self, generation)

    def _say(self, segments: Segments) -> None:
        self._pending += segments
        self._pending_ids = None

    def _said_ids(self) -> list[int]:
        if self._pending_ids is None:
            self._pending_ids = self._tokenizer.encode_segments(self._pending)
        return self._pending_ids

    def _prompt(self, segments: Segments) -> list[int]:
        """All that was said, and these."""
        ids: list[int] = self.transcript.ids.tolist()
        return ids + self._tokenizer.encode_segments(segments)

    def _keep_opening(self) -> None:
        """Where the engine has read the opening and no more, its state is kept: a shortened session begins with it."""
        if self._opening_state is None and getattr(self._session, "position", 0) == self.opening_length:
            saved = self._engine.snapshot(self._session)
            self._opening_state = replace(saved, state=saved.state and saved.state.packed())

    def _room(self, prompt: Sequence[int], reserve: int) -> int:
        """How many tokens an answer may have; the engine keeps one for itself."""
        room = self.context_length - len(prompt) - 1 - reserve
        if room < 1:
            raise ContextOverflowError(
                f"the session has {len(prompt)} tokens of a context of {self.context_length}: no answer fits behind "
                "them; shorten it with /compact, or begin anew with /new"
            )
        return room

    def _parse_options(self) -> ParseOptions:
        start = ParseStart.REASONING if self._is_thinking else ParseStart.CONTENT
        return ParseOptions(start=start, parse_tool_calls=bool(self._tools))

    def _submitted(
        self,
        prompt: Sequence[int],
        options: GenerateOptions,
        session: Any,
        guide: Guide | None = None,
        chooser: Chooser | None = None,
    ) -> "_InHand":
        generation = self._engine.submit(prompt, options, session=session, guide=guide, chooser=chooser)
        return self.holding(generation)

    def hold(self, generation: Generation | None) -> None:
        """What `interrupt` ends from now on."""
        with self._lock:
            self._in_hand = generation

    def _close(self, finished: Finished, begin: int, read_tokens: int) -> None:
        """Close the answer; the model never began one of which it has read nothing, so that goes."""
        if not finished.generated_tokens and read_tokens <= begin and finished.reason is not FinishReason.STOP:
            self._transcript.cut(begin)
            return
        drawn = self._transcript.ids[begin:]
        is_cut = finished.stop_id != self._eos
        is_in_thought = is_cut and self._is_thinking and self._think_close not in drawn
        self._transcript.extend(self._tokenizer.encode_segments(self._turns.answer_end(is_in_thought=is_in_thought)))

    def _tail_start(self, keep_tokens: int) -> int:
        """Where the words of the user begin that are kept; the length of all where none are."""
        earliest = max(self.opening_length, len(self._transcript) - keep_tokens)
        return next(
            (place for place in self._transcript.places(self._user) if place >= earliest), len(self._transcript)
        )

    def _plain_text(self, ids: Sequence[int]) -> str:
        special = set(self._tokenizer.vocabulary.special_ids.values())
        return self._tokenizer.decode([token for token in ids if token not in special])


class _InHand:
    """A generation while the dialogue waits for it: whoever leaves early cancels it, and it is over afterwards."""

    def __init__(self, dialogue: LocalDialogue, generation: Generation) -> None:
        self._dialogue = dialogue
        self._generation = generation

    def __enter__(self) -> Generation:
        self._dialogue.hold(self._generation)
        return self._generation.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._generation.__exit__(*error)
        self._dialogue.hold(None)


def _checked_end(generation: Generation) -> Finished:
    """Raise what ended it early."""
    finished = generation.result().finished
    if finished.reason is FinishReason.CANCELLED:
        raise Cancelled("it was interrupted")
    return finished
