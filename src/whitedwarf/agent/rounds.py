"""One turn: the user's words, then answers and tools by turns until an answer calls no tool. On the agent's thread.

Promises: there is no cap on the rounds; whatever ends a turn leaves a conversation that goes on. What does not fit in
the context is made to fit by one compaction, or is replaced by an error that asks for less.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from whitedwarf.agent.approval import Policy
from whitedwarf.agent.checking import Checking
from whitedwarf.agent.compact import MAX_SUMMARY_TOKENS, SUMMARY_REQUEST, needs_compaction, summary_note, tail_tokens
from whitedwarf.agent.dialogue import Answer, Dialogue, Result
from whitedwarf.agent.events import AnswerEnd, AnswerEnded, Compacting, Event, Listener, Notice, TurnBegan
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.system_prompt import REMINDER, date_line, system_prompt
from whitedwarf.agent.tool import Toolbox
from whitedwarf.agent.tool_calls import ERROR, ToolCalls
from whitedwarf.errors import Cancelled, WhitedwarfError

_FRAME_TOKENS = 24  # more than what stands around a result or the user's words
_SETTLED = (AnswerEnd.DONE, AnswerEnd.LENGTH, AnswerEnd.INTERRUPTED)


class Rounds:
    """The turns of one session after the other.

    `take_queued` gives what the user has written meanwhile, `at_safe_point` runs what was asked for in between.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        toolbox: Toolbox,
        policy: Policy,
        listen: Listener,
        settings: AgentSettings,
        *,
        interrupted: threading.Event,
        take_queued: Callable[[], str | None],
        at_safe_point: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._dialogue = dialogue
        self._toolbox = toolbox
        self._listen = listen
        self._interrupted = interrupted
        self._take_queued = take_queued
        self._at_safe_point = at_safe_point
        self._calls = ToolCalls(toolbox, policy, listen, interrupted)
        self._is_dated = False
        self._system_tokens = 0
        self._system_seen_at = 0  # used tokens
        self._has_answered = False  # since the context was made short

    def begin(self) -> None:
        """A new session."""
        settings = self.settings
        system = system_prompt(self._toolbox.tools) if settings.system is None else settings.system
        self._dialogue.begin(system, self._toolbox.definitions, settings.extra_system)
        self._system_tokens = self._dialogue.used_tokens
        self._is_dated = not settings.tells_date
        self._forget()

    def resume(self) -> None:
        """The dialogue holds another session now, which was begun before."""
        self._is_dated = True
        self._system_seen_at = 0
        self._has_answered = True

    def turn(self, text: str) -> AnswerEnd:
        """From the user's words to an answer without calls; WhitedwarfError when the model fails."""
        if not self._is_dated:
            self._dialogue.instruct(date_line(datetime.now().astimezone(), self.settings.workspace))
            self._is_dated = True
        if not self._say(text):
            return AnswerEnd.INTERRUPTED if self._interrupted.is_set() else AnswerEnd.LENGTH
        while True:
            self._at_safe_point()
            if self._interrupted.is_set():
                return self._stopped("Interrupted before the model read on; it reads the rest with your next words.")
            self._remind()
            answer = self._answer()
            if answer.end is AnswerEnd.INTERRUPTED and answer.calls:
                self._report(answer)  # as not run: the model must not take them for done
            if answer.end in _SETTLED:
                return answer.end
            self._report(answer)
            if self._interrupted.is_set():
                return self._stopped("Interrupted; the model learns of the tools' results with your next words.")
            queued = self._take_queued()
            if queued is not None:
                self._say(queued)

    def compact(self) -> None:
        """Shorten the context; Cancelled, or another error, leaves it as it is."""
        if self._interrupted.is_set():
            raise Cancelled("it was interrupted")
        if not self._has_answered:
            raise WhitedwarfError("there is nothing to shorten: the model has said nothing yet, or nothing since then")
        dialogue = self._dialogue
        self._listen(Compacting("summary", 0, MAX_SUMMARY_TOKENS))
        summary = dialogue.summarise(SUMMARY_REQUEST, MAX_SUMMARY_TOKENS, self._hear)
        if not summary:
            raise WhitedwarfError("the model wrote no summary, so nothing was dropped")
        before = dialogue.used_tokens
        dialogue.shorten(summary_note(summary), tail_tokens(dialogue.context_length), self._hear)
        if standing := self._toolbox.standing():
            dialogue.instruct(standing)
        self._forget()
        self._listen(Notice(_what_was_gained(before, dialogue.used_tokens)))

    def _forget(self) -> None:
        self._system_seen_at = self._dialogue.used_tokens
        self._has_answered = False

    def _answer(self) -> Answer:
        answer = self._dialogue.answer(self._hear, Checking(self._toolbox), self.settings.max_answer_tokens)
        self._has_answered = True
        self._listen(AnswerEnded(answer.end, answer.tokens, self._dialogue.used_tokens, answer.fault))
        if answer.end is AnswerEnd.INTERRUPTED:
            self._listen(Notice(_what_it_knows(answer)))
        if answer.end is AnswerEnd.LENGTH:
            self._listen(Notice(f"The answer was cut off after {answer.tokens} tokens, all that it may have here."))
        return answer

    def _hear(self, event: Event) -> None:
        """Tell what comes of an answer or a summary; one that began just when the user interrupted hears of it here."""
        self._listen(event)
        if self._interrupted.is_set():
            self._dialogue.interrupt()

    def _say(self, text: str) -> bool:
        """The user's words become part of the session, if they fit."""
        tokens = self._dialogue.count(text) + _FRAME_TOKENS
        if not self._has_room(tokens):
            self._listen(Notice(self._too_long(tokens), is_error=True))
            return False
        self._dialogue.say(text)
        self._listen(TurnBegan(text))
        return True

    def _too_long(self, tokens: int) -> str:
        context, used = self._dialogue.context_length, self._dialogue.used_tokens
        free = context - used - self._reserve
        if free > 0:
            return f"Your words have {tokens} tokens, which do not fit in the {free} that are left: not sent."
        return (
            f"{used} of the context's {context} tokens are used, so your words and an answer do not fit in the rest: "
            "not sent. It needs a larger context (--ctx), or fewer tools."
        )

    def _report(self, answer: Answer) -> None:
        """Run what was called, and say what it gave."""
        calls = () if answer.end is AnswerEnd.FAULTY else answer.calls
        results = self._calls.run(calls)
        note = ERROR + answer.fault if answer.fault else ""
        if answer.end is AnswerEnd.FAULTY:
            note += ". No call of this answer was run"
        fitting = self._fitting(results, note)
        if len(fitting) < len(results):
            note = "\n".join(filter(None, (_left_out(len(results) - len(fitting)), note)))
        self._dialogue.report(fitting, note)

    def _fitting(self, results: Sequence[Result], note: str) -> list[Result]:
        """The results, of which the longest are replaced until all fit, and in the end the last left out; named, if
        the calls may have been dropped."""
        fitting = self._reduced(results, note)
        if self._has_answered:
            return fitting
        return [replace(one, text=_named(number, one)) for number, one in enumerate(fitting, 1)]

    def _reduced(self, results: Sequence[Result], note: str) -> list[Result]:
        fitting = list(results)
        sizes = [self._dialogue.count(result.text) + _FRAME_TOKENS for result in fitting]
        rest = self._dialogue.count(note)
        if self._has_room(sum(sizes) + rest):
            return fitting
        for index in sorted(range(len(fitting)), key=lambda index: -sizes[index]):
            if self._fits(sum(sizes) + rest):
                break
            refusal = self._too_large(sizes[index])
            if (size := self._dialogue.count(refusal) + _FRAME_TOKENS) < sizes[index]:
                fitting[index] = replace(fitting[index], text=refusal, is_error=True)
                sizes[index] = size
        while fitting and not self._fits(sum(sizes) + rest):
            fitting.pop()
            sizes.pop()
            rest = self._dialogue.count(note) + self._dialogue.count(_left_out(len(results))) + _FRAME_TOKENS
        return fitting

    def _too_large(self, tokens: int) -> str:
        free = max(0, self._dialogue.context_length - self._dialogue.used_tokens - self._reserve)
        return (
            f"{ERROR}the result has {tokens} tokens and the context has room for {free}; the call was carried out, ask "
            "for a smaller part of its output"
        )

    def _has_room(self, tokens: int) -> bool:
        """Whether so many more fit, after one compaction if it has to be."""
        dialogue, settings = self._dialogue, self.settings
        is_full = needs_compaction(dialogue.used_tokens, dialogue.context_length, settings.compact_at)
        if self._has_answered and (is_full or not self._fits(tokens)):
            try:
                self.compact()
            except Cancelled:
                self._listen(Notice("Interrupted while the context was shortened: it stays as it was."))
            except WhitedwarfError as error:
                self._listen(Notice(f"The context could not be shortened: {error}", is_error=True))
        return self._fits(tokens)

    def _fits(self, tokens: int) -> bool:
        used = self._dialogue.used_tokens
        return used + tokens + self._reserve <= self._dialogue.context_length

    @property
    def _reserve(self) -> int:
        """What has to stay free for an answer: less where the context itself is small."""
        return min(self.settings.reserve_tokens, self._dialogue.context_length // 8)

    def _remind(self) -> None:
        dialogue, settings = self._dialogue, self.settings
        is_due = dialogue.used_tokens - self._system_seen_at >= settings.reminder_after_tokens
        afterwards = dialogue.used_tokens + self._system_tokens
        if is_due and not needs_compaction(afterwards, dialogue.context_length, settings.compact_at):
            dialogue.remind(REMINDER)
            self._system_seen_at = self._dialogue.used_tokens

    def _stopped(self, notice: str) -> AnswerEnd:
        self._listen(Notice(notice))
        return AnswerEnd.INTERRUPTED


def _what_was_gained(before: int, after: int) -> str:
    if after < before:
        return f"The context was shortened from {before} to {after} tokens."
    kept = f"the summary and what stays word for word have {after} tokens, before it was {before}"
    return f"The context could not be made shorter: {kept}."


def _named(number: int, result: Result) -> str:
    return f"Tool result {number} ({result.call.name}):\n{result.text}"


def _left_out(calls: int) -> str:
    return (
        f"{ERROR}the results of the last {calls} calls are left out, because the context has no room for them; the "
        "calls may have been carried out. Make fewer of them at a time"
    )


def _what_it_knows(answer: Answer) -> str:
    if answer.tokens:
        return "Interrupted; the model knows what it has said so far."
    return "Interrupted while reading; the model may know only the beginning, and reads the rest with your next words."
