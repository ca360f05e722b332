"""What was said last in a session, for people: its tokens read back into turns (product.md C.9). Pure.

Promises: no tokens upset it; what is shown of a turn is bounded, and says what was left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from whitedwarf.agent.answer_text import AnswerText
from whitedwarf.agent.compact import summary_note
from whitedwarf.agent.dialogue import Call
from whitedwarf.agent.transcript import Ids
from whitedwarf.conversation.events import BackendReason, Finished
from whitedwarf.errors import UsageError
from whitedwarf.prompt import literals
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

DEFAULT_TURNS = 3
MOST_TURNS = 200
_LONGEST_ARGUMENT = 120
_SUMMARY_OPEN, _SUMMARY_CLOSE = summary_note("\0").split("\0")


class Speaker(StrEnum):
    """Who says something."""

    USER = "You"
    AGENT = "Agent"
    TOOLS = "Tool result"
    SYSTEM = "System"
    SUMMARY = "Summary of what was dropped"


@dataclass(frozen=True, slots=True)
class Said:
    """One utterance; calls are the agent's."""

    speaker: Speaker
    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Cap:
    """How much of an utterance is shown: its end, or its beginning."""

    lines: int
    bytes: int
    keeps_end: bool = False


_CAPS = {
    Speaker.AGENT: Cap(80, 12_000, keeps_end=True),
    Speaker.USER: Cap(30, 4_000),
    Speaker.TOOLS: Cap(8, 1_200),
    Speaker.SYSTEM: Cap(4, 400),
    Speaker.SUMMARY: Cap(80, 12_000),
}


class History:
    """Reads the sessions of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        known = tokenizer.vocabulary.special_ids
        self._id = {token: known[token] for token in SpecialToken if token in known}
        self._begins = np.array([self._id[token] for token in _SPEAKS if token in self._id], np.int32)

    def said(self, ids: Ids) -> list[Said]:
        """All that was said behind the system's part at the beginning."""
        return [said for start, end in self._stretches(ids) for said in self._read(ids[start:end])]

    def recent(self, ids: Ids, turns: int) -> list[Said]:
        """The last turns, each from the user's words on; and the latest summary, wherever it stands."""
        stretches = self._stretches(ids)
        found: list[list[Said]] = []
        for start, end in reversed(stretches):
            said = list(self._read(ids[start:end]))
            found.append(said)
            turns -= any(one.speaker is Speaker.USER for one in said)
            if turns <= 0:
                break
        recent = [one for said in reversed(found) for one in said if one.speaker is not Speaker.SYSTEM]
        if not any(one.speaker is Speaker.SUMMARY for one in recent):
            recent = self._summary(ids, stretches[: len(stretches) - len(found)]) + recent
        return recent

    def text(self, ids: Ids, turns: int = DEFAULT_TURNS) -> str:
        """As `/history` shows it; UsageError for a number that is not from 1 to 200."""
        if not 1 <= turns <= MOST_TURNS:
            raise UsageError(f"/history {turns}: expected a number from 1 to {MOST_TURNS}")
        recent = self.recent(ids, turns)
        return "\n\n".join(map(_shown, recent)) if recent else "Nothing was said yet."

    def num_turns(self, ids: Ids) -> int:
        """How often the user spoke."""
        return sum(one.speaker is Speaker.USER for one in self.said(ids))

    def _stretches(self, ids: Ids) -> list[tuple[int, int]]:
        """From one speaker's token to the next, without the opening."""
        places = np.flatnonzero(np.isin(ids, self._begins))
        places = places[places >= 2]  # V4.1 opens with such a token
        return list(pairwise([*places.tolist(), len(ids)]))

    def _summary(self, ids: Ids, stretches: Sequence[tuple[int, int]]) -> list[Said]:
        systems = [self._id[token] for token in _SYSTEM_SPEAKS if token in self._id]
        for start, end in reversed(stretches):
            if int(ids[start]) in systems:
                found = [one for one in self._read(ids[start:end]) if one.speaker is Speaker.SUMMARY]
                if found:
                    return found
        return []

    def _read(self, ids: Ids) -> Iterator[Said]:
        first = int(ids[0])
        if first == self._id.get(SpecialToken.ASSISTANT):
            yield self._answer(ids[1:])
        elif first == self._id.get(SpecialToken.USER):
            yield from _user_side(self._decoded(ids[1:]))
        else:
            text = self._decoded(ids[1:])
            is_summary = text.startswith(_SUMMARY_OPEN)
            summary = text.removeprefix(_SUMMARY_OPEN).removesuffix(_SUMMARY_CLOSE)
            yield Said(Speaker.SUMMARY, summary) if is_summary else Said(Speaker.SYSTEM, text)

    def _answer(self, ids: Ids) -> Said:
        is_thought = bool(len(ids)) and int(ids[0]) == self._id.get(SpecialToken.THINK_OPEN)
        parser = OutputParser(
            ParseOptions(start=ParseStart.REASONING if is_thought else ParseStart.CONTENT), self._tokenizer
        )
        said = AnswerText()
        words = [token for token in ids[1:].tolist() if token != self._id.get(SpecialToken.EOS)]
        for event in [*parser.feed_ids(words), *parser.finish(BackendReason.STOP)]:
            if not isinstance(event, Finished):
                said.take(event)
        return Said(Speaker.AGENT, said.text.strip(), said.calls)

    def _decoded(self, ids: Ids) -> str:
        return self._tokenizer.decode([token for token in ids.tolist() if token < self._tokenizer.vocab_size])


_SYSTEM_SPEAKS = (SpecialToken.LATEST_REMINDER, SpecialToken.SYSTEM)
_SPEAKS = (SpecialToken.USER, SpecialToken.ASSISTANT, *_SYSTEM_SPEAKS)


def _user_side(text: str) -> Iterator[Said]:
    """Results of tools, and words of the user behind them."""
    while text.startswith(literals.RESULT_OPEN):
        result, _, text = text.removeprefix(literals.RESULT_OPEN).partition(literals.RESULT_CLOSE)
        text = text.removeprefix(literals.SEPARATOR)
        yield Said(Speaker.TOOLS, result)
    if text:
        yield Said(Speaker.USER, text)


def _shown(said: Said) -> str:
    body = capped(said.text, _CAPS[said.speaker])
    lines = [f"{said.speaker}:", *([body] if body else []), *map(_call_line, said.calls)]
    return "\n".join(lines)


def _call_line(call: Call) -> str:
    arguments = ", ".join(f"{name}={_short(value)}" for name, value in call.arguments.items())
    return f"→ {call.name}({arguments})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_ARGUMENT else text[: _LONGEST_ARGUMENT - 1] + "…"


def capped(text: str, cap: Cap) -> str:
    """At most so many lines and bytes of it, and how many lines were left out."""
    lines = text.split("\n")
    kept = lines[-cap.lines :] if cap.keeps_end else lines[: cap.lines]
    raw = "\n".join(kept).encode(errors="replace")
    is_cut = len(raw) > cap.bytes
    if is_cut:
        part = raw[-cap.bytes :] if cap.keeps_end else raw[: cap.bytes]
        kept = part.decode(errors="ignore").split("\n")
    left_out = len(lines) - len(kept)
    if not left_out and not is_cut:
        return text
    what = f"… {left_out} more lines …" if left_out else "… a part is left out …"
    return "\n".join([what, *kept] if cap.keeps_end else [*kept, what])
