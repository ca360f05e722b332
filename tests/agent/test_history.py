"""What was said last, read back from the tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.scripted_agent import Echo, block, call, scripted, stage
from whitedwarf.agent.history import Cap, History, Speaker, capped
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

THINKING = AgentSettings(thinking=Thinking.HIGH, system="You help.")


@pytest.mark.parametrize("version", ModelVersion)
@pytest.mark.parametrize("settings", [AgentSettings(thinking=Thinking.NONE, system="You help."), THINKING])
def test_turns_with_tools_are_read_back(tokenizer: Tokenizer, version: ModelVersion, settings: AgentSettings) -> None:
    thought = ("hm", SpecialToken.THINK_CLOSE) if settings.thinking.is_on else ()
    answers = (
        scripted(
            tokenizer,
            *thought,
            "Let me see.",
            *block(call("echo", text="a"), call("echo", text="b"), version=version),
        ),
        scripted(tokenizer, *thought, "All done."),
        scripted(tokenizer, *thought, "Bye."),
    )
    with stage(tokenizer, *answers, tools=[Echo()], settings=settings, version=version) as played:
        played.says("first words", "second words")
        ids = played.dialogue.transcript.ids
    history = History(tokenizer)
    said = [(one.speaker, one.text) for one in history.said(ids) if one.speaker is not Speaker.SYSTEM]
    assert said == [
        (Speaker.USER, "first words"),
        (Speaker.AGENT, "Let me see."),
        (Speaker.TOOLS, "heard a"),
        (Speaker.TOOLS, "heard b"),
        (Speaker.AGENT, "All done."),
        (Speaker.USER, "second words"),
        (Speaker.AGENT, "Bye."),
    ]
    assert history.num_turns(ids) == 2
    assert [one.text for one in history.recent(ids, 1)] == ["second words", "Bye."]
    assert history.text(ids, 1) == "You:\nsecond words\n\nAgent:\nBye."
    assert "→ echo(text='a')" in history.text(ids)


def test_the_latest_summary_is_shown_wherever_it_is(tokenizer: Tokenizer) -> None:
    answers = [scripted(tokenizer, text) for text in ("one", "the goal is x", "two", "three", "four", "five")]
    with stage(tokenizer, *answers) as played:
        played.says("a")
        played.agent.request(played.agent.compact)
        assert played.agent.wait_idle(20)
        played.says("b", "c", "d", "e")
        ids = played.dialogue.transcript.ids
    history = History(tokenizer)
    text = history.text(ids, 2)
    assert text.startswith("Summary of what was dropped:\nthe goal is x\n\nYou:\nd")
    assert "You:\nc" not in text


def test_an_empty_session_says_so(tokenizer: Tokenizer) -> None:
    assert History(tokenizer).text(np.empty(0, np.int32)) == "Nothing was said yet."


@pytest.mark.parametrize("turns", [0, -1, 201])
def test_numbers_out_of_range_are_told(tokenizer: Tokenizer, turns: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 200"):
        History(tokenizer).text(np.empty(0, np.int32), turns)


@settings(max_examples=200)
@given(ids=st.lists(st.integers(0, 4095) | st.integers(0, 140), max_size=60), turns=st.integers(1, 5))
def test_no_tokens_upset_it(tokenizer: Tokenizer, ids: list[int], turns: int) -> None:
    assert History(tokenizer).text(np.array(ids, np.int32), turns)


@given(st.text(alphabet="aé\n", max_size=80), st.integers(1, 6), st.integers(1, 40), st.booleans())
def test_what_is_shown_is_bounded(text: str, lines: int, size: int, keeps_end: bool) -> None:
    shown = capped(text, Cap(lines, size, keeps_end=keeps_end))
    if shown != text:
        assert "…" in shown
    else:
        assert text.count("\n") < lines
        assert len(text.encode()) <= size
    kept = [line for line in shown.split("\n") if not line.startswith("…")]
    assert len(kept) <= lines
    assert len("\n".join(kept).encode()) <= size


def test_the_end_of_an_answer_and_the_beginning_of_a_result_are_shown() -> None:
    text = "\n".join(map(str, range(100)))
    assert capped(text, Cap(3, 100, keeps_end=True)) == "… 97 more lines …\n97\n98\n99"
    assert capped(text, Cap(3, 100)) == "0\n1\n2\n… 97 more lines …"
    assert capped("x" * 50, Cap(3, 10)) == "x" * 10 + "\n… a part is left out …"
