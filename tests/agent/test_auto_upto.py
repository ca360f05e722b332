"""`[upto]` is written for the model at a line end where what it copies says enough, and nowhere else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from agent.scripted_agent import Ear, NoChecks, block, call, segments_of
from fakes.models import FakeModel, FakeState
from whitedwarf.agent.auto_upto import MARKER
from whitedwarf.agent.dialogue import Answer
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import SamplingOptions
from whitedwarf.model.base import Logits, Span
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

FIRST = "# The shapes of this program\nEvery shape knows its area, its unit and its name.\n"
MIDDLE = "A square is made of one side.\nA circle is made of one radius.\n"
LAST = "All others are made of triangles.\n"
SHORT = "# Shapes\nThey have areas.\n"
INDENTED = "    total = 0\n    return total\n"
GREEDY = AgentSettings(thinking=Thinking.NONE, sampling=SamplingOptions(temperature=0.0))
ALWAYS: Callable[[str], bool] = lambda begun: True  # noqa: E731


class Parrot(FakeModel):
    """Says `script`; behind a marker that it did not mean to write, `after`."""

    def __init__(self, tokenizer: Tokenizer, script: list[int], after: list[int]) -> None:
        super().__init__(vocab_size=tokenizer.vocab_size, context_length=4096)
        self._assistant = tokenizer.special_id(SpecialToken.ASSISTANT)
        self._marker = tokenizer.encode(MARKER + "\n")
        self._script = script
        self._after = after

    def _run(self, span: Span) -> Logits:
        rows = super()._run(span)
        if len(rows):
            assert isinstance(span.state, FakeState)
            rows[:] = 0.0
            rows[-1, self._next(span.state.ids)] = 100.0
        return np.asarray(rows)

    def _next(self, ids: list[int]) -> int:
        begin = max(place for place, token in enumerate(ids) if token == self._assistant) + 2
        said, size = ids[begin:], len(self._marker)
        places = [i + size for i in range(len(said)) if said[i : i + size] == self._marker]
        return self._after[len(said) - places[0]] if places and self._after else self._script[len(said)]


@dataclass
class Watching(NoChecks):
    """Remembers what it was asked to skip."""

    def __post_init__(self) -> None:
        self.begun: list[tuple[str, str, str, Mapping[str, str]]] = []

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        self.begun.append((tool, parameter, begun, dict(arguments)))
        return super().may_skip(tool, parameter, begun, arguments)


def edited(
    tokenizer: Tokenizer, old: str, checks: NoChecks, *, after: str | None = None, settings: AgentSettings = GREEDY
) -> Answer:
    """The answer of a model that wants to replace `old`."""
    eos = tokenizer.special_id(SpecialToken.EOS)

    def ids(text: str) -> list[int]:
        """From there on, to the end."""
        whole = block(call("edit", path="a.py", old="OLD", new="pass\n"))
        at = next(i for i, part in enumerate(whole) if "OLD" in getattr(part, "text", ""))
        before, behind = whole[at].text.split("OLD")  # type: ignore[union-attr]
        made = [text + behind, *whole[at + 1 :]]
        return [*tokenizer.encode_segments(segments_of([*whole[:at], before, *made] if text == old else made)), eos]

    parrot = Parrot(tokenizer, ids(old), ids(after) if after is not None else [])
    with Engine(parrot) as engine:
        dialogue = LocalDialogue(engine, tokenizer, ModelVersion.V4, settings)
        dialogue.begin("You help.", [ToolDefinition("edit")], "")
        dialogue.say("Go.")
        return dialogue.answer(Ear(), checks, 1000)


def old_of(answer: Answer) -> object:
    assert len(answer.calls) == 1, answer
    return answer.calls[0].arguments["old"]


def test_a_marker_stands_for_the_rest_once_enough_is_said(tokenizer: Tokenizer) -> None:
    checks = Watching(skips=ALWAYS)
    answer = edited(tokenizer, FIRST + MIDDLE + LAST, checks, after=LAST)
    assert old_of(answer) == FIRST + MARKER + "\n" + LAST
    assert checks.begun == [("edit", "old", FIRST, {"path": "a.py"})]


def test_what_is_not_enough_is_asked_about_again_at_the_next_line_end(tokenizer: Tokenizer) -> None:
    checks = Watching(skips=lambda begun: begun.endswith("radius.\n"))
    answer = edited(tokenizer, FIRST + MIDDLE + LAST, checks, after=LAST)
    assert old_of(answer) == FIRST + MIDDLE + MARKER + "\n" + LAST
    assert [begun for _, _, begun, _ in checks.begun] == [
        FIRST,
        FIRST + MIDDLE.splitlines(keepends=True)[0],
        FIRST + MIDDLE,
    ]


@pytest.mark.parametrize(
    "old",
    [
        SHORT + "Not all.\n",
        FIRST,
        FIRST.replace("\n", " ") + LAST.rstrip(),
        FIRST.replace("\n", " ") + "\n\n" + LAST.rstrip(),
        FIRST.rstrip() + "\n\n",
        FIRST + INDENTED,
    ],
    ids=[
        "too short",
        "about to end",
        "one line",
        "one line, nothing, and one",
        "about to end behind an empty line",
        "before blanks",
    ],
)
def test_elsewhere_everything_is_left_as_it_was_meant(tokenizer: Tokenizer, old: str) -> None:
    assert old_of(edited(tokenizer, old, NoChecks(skips=ALWAYS), after=LAST)) == old


def test_an_empty_line_counts_as_written(tokenizer: Tokenizer) -> None:
    checks = Watching(skips=lambda begun: begun.endswith("\n\n"))
    answer = edited(tokenizer, FIRST + "\n" + MIDDLE + LAST, checks, after=LAST)
    assert old_of(answer) == FIRST + "\n" + MARKER + "\n" + LAST


def test_a_marker_of_the_models_own_is_enough(tokenizer: Tokenizer) -> None:
    old = FIRST + MARKER + "\n" + LAST
    checks = Watching(skips=ALWAYS)
    assert old_of(edited(tokenizer, old.replace(FIRST, SHORT), checks)) == old.replace(FIRST, SHORT)
    assert checks.begun == []


def test_at_most_once_in_a_parameter(tokenizer: Tokenizer) -> None:
    checks = Watching(skips=ALWAYS)
    answer = edited(tokenizer, FIRST + LAST, checks, after=MIDDLE + LAST)
    assert str(old_of(answer)).count(MARKER) == 1
    assert len(checks.begun) == 1


def test_sampling_with_a_seed_stays_repeatable(tokenizer: Tokenizer) -> None:
    warm = AgentSettings(thinking=Thinking.NONE, sampling=SamplingOptions(seed=7))
    answers = [
        edited(tokenizer, FIRST + MIDDLE + LAST, NoChecks(skips=ALWAYS), after=LAST, settings=warm) for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert MARKER in str(old_of(answers[0]))
