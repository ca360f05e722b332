"""Slash commands without a screen: what each says and does, idle and busy."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.saved_agent import SavedAgent
from agent.scripted_agent import PATIENCE_S, Echo, block, call, scripted
from agent.store_bench import tokens
from whitedwarf.agent.command_help import help_text
from whitedwarf.agent.commands import WORDS, Commands
from whitedwarf.agent.events import Notice, SessionChanged
from whitedwarf.agent.session_list import age_text, list_text
from whitedwarf.agent.sessions import SessionSettings
from whitedwarf.agent.store import Listing
from whitedwarf.agent.tool import Outcome
from whitedwarf.errors import UsageError


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[SavedAgent]:
    with SavedAgent(tmp_path) as agent:
        yield agent


def test_every_command_is_helped_and_completed(agent: SavedAgent) -> None:
    text = agent.obeys("/help").text
    assert all(f"\n{word}" in f"\n{text}" for word in WORDS)
    assert agent.commands.completions("/s") == ["/switch", "/save", "/strip", "/steer"]
    assert agent.commands.completions("/quit") == ["/quit"]
    assert agent.commands.completions("") == agent.commands.completions("hello") == []


@pytest.mark.parametrize("line", ["/nonsense", "/", "/HELP", "/saved", "/switch12", "//", "/help/"])
def test_unknown_words_ring_the_bell_and_stay(agent: SavedAgent, line: str) -> None:
    outcome = agent.obeys(line)
    assert (outcome.is_known, outcome.is_error, outcome.leaves) == (False, True, False)


def test_ids_are_completed_last_used_first_without_the_one_we_are_in(agent: SavedAgent) -> None:
    ids = []
    for words in ("one", "two", "three"):
        agent.obeys("/new")
        agent.says(words)
        ids.append(agent.sessions.current_id)
    found = agent.commands.completions("/switch ")
    assert sorted(found) == sorted(f"/switch {one[:8]}" for one in ids[:2])
    assert agent.commands.completions(f"/del {ids[0][:5]}") == [f"/del {ids[0][:8]}"]
    assert agent.commands.completions("/switch xyz") == []
    assert agent.commands.completions("/history ") == []


def test_the_list_shows_what_there_is_and_where_we_are(agent: SavedAgent) -> None:
    assert agent.obeys("/list").text == "No sessions are saved yet."
    agent.says("look at \x1b[31mthis " + "long " * 40)
    agent.sessions.flush()
    (line,) = agent.obeys("/list").text.splitlines()
    assert line.startswith(f"*{agent.sessions.current_id[:8]}  look at ·[31mthis long")
    assert "…" in line
    assert "\x1b" not in line
    assert str(len(agent.ids)) in line
    assert "MB" in line


def test_a_session_that_cannot_be_used_is_told_in_the_list(agent: SavedAgent) -> None:
    (agent.folder / f"{'ab' * 20}.kv").write_bytes(b"")
    assert "not usable: abab" in agent.obeys("/list").text


def test_saving_nothing_is_told(agent: SavedAgent) -> None:
    outcome = agent.obeys("/save")
    assert outcome.is_error
    assert "nothing was said yet" in outcome.text


def test_save_says_how_the_session_is_called(agent: SavedAgent) -> None:
    agent.says("hello there")
    assert agent.obeys("/save").text == (
        f"saved as {agent.sessions.current_id[:8]} ({len(agent.ids)} tokens): hello there"
    )


def test_new_begins_another_and_says_so_to_the_screen(agent: SavedAgent) -> None:
    agent.says("hello")
    first = agent.sessions.current_id
    assert agent.obeys("/new").text == "a new session"
    assert agent.ear.of(SessionChanged)[-1].id == agent.sessions.current_id == ""
    agent.says("hello")
    assert agent.sessions.current_id not in ("", first)


def test_switching_needs_an_id_that_is_there_and_another_one(agent: SavedAgent) -> None:
    agent.says("hello")
    for line, problem in (
        ("/switch", "expected the id"),
        ("/switch zz", "first digits"),
        ("/switch 0000000", "/list shows"),
        (f"/switch {agent.sessions.current_id}", "you are in it already"),
        (f"/del {agent.sessions.current_id}", "/new first"),
        (f"/strip {agent.sessions.current_id[:7]}", "/new first"),
        ("/del", "expected the id"),
        ("/history 0", "from 1 to 200"),
        ("/history 201", "from 1 to 200"),
        ("/history x", "whole number"),
        ("/history 9999999999999999999", "whole number"),
        ("/power 0", "1 to 100"),
        ("/power 101", "1 to 100"),
        ("/power fast", "whole number"),
        ("/steer x", "there is none"),
    ):
        outcome = agent.obeys(line)
        assert outcome.is_error, line
        assert problem in outcome.text
    agent.says("still here")


def test_tools_that_are_gone_are_told(tmp_path: Path) -> None:
    with SavedAgent(tmp_path, tools=(Echo(), Echo("shout"))) as agent:
        agent.says("hello")
        session_id = agent.sessions.current_id
    with SavedAgent(tmp_path, tools=(Echo(),)) as agent:
        assert "Tools it had that are not here: shout." in agent.obeys(f"/switch {session_id}").text


def test_deleting_deletes(agent: SavedAgent) -> None:
    agent.says("hello")
    first = agent.sessions.current_id
    agent.obeys("/new")
    assert agent.obeys(f"/del {first[:6]}").text == f"deleted {first[:8]}"
    assert agent.obeys("/list").text == "No sessions are saved yet."


def test_history_shows_what_was_said(agent: SavedAgent) -> None:
    assert agent.obeys("/history").text == "Nothing was said yet."
    agent.says("one", "two")
    assert "You:\none" not in agent.obeys("/history 1").text
    assert "You:\none" in agent.obeys("/history 200").text


def test_power_is_told_and_set(agent: SavedAgent) -> None:
    assert agent.obeys("/power").text == "power: 100 %"
    assert agent.obeys("/power 50").text == "power: 50 %"
    assert agent.engine.power_percent == 50
    assert agent.obeys("/power 100 %").text == "power: 100 %"


def test_thinking_is_set_for_the_next_answers(agent: SavedAgent) -> None:
    assert agent.obeys("/think").text.startswith("thinking: high")
    assert agent.dialogue.is_thinking
    assert "max needs a context of" in agent.obeys("/think-max").text
    assert agent.obeys("/nothink").text == "thinking: none"
    assert not agent.dialogue.is_thinking


def test_compacting_is_kept_at_once(tmp_path: Path) -> None:
    answers = tuple(scripted(tokens(), words) for words in ("A poem.", "Another.", "A summary.", "never drawn"))
    with SavedAgent(tmp_path, answers) as agent:
        agent.says("write a poem about stars", "and another")
        outcome = agent.obeys("/compact")
        assert not outcome.is_error, outcome.text
        assert agent.sessions.is_kept
        kept, session_id = agent.ids, agent.sessions.current_id
    with SavedAgent(tmp_path, answers) as again:
        again.obeys(f"/switch {session_id}")
        assert again.ids == kept


def test_leaving_without_autosave_asks(tmp_path: Path) -> None:
    with SavedAgent(tmp_path, sessions_settings=SessionSettings(autosave=False)) as agent:
        assert agent.obeys("/quit").leaves  # nothing was said
        agent.says("hello")
        agent.asked.answers = [True]
        assert agent.obeys("/new").text == "a new session"
        assert len(agent.sessions.listing().entries) == 1
        agent.says("other")
        agent.asked.answers = [False]
        assert agent.obeys("/exit").leaves
        assert agent.asked.texts == ["Save the current session?"] * 2
    assert len(list(tmp_path.glob("*.kv"))) == 2  # with the system's prompt


# while the agent is at work


class Held:
    """An agent in the middle of a turn, until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.gate, self.inside = threading.Event(), threading.Event()
        answers = (
            scripted(tokens(), *block(call("echo"))),
            scripted(tokens(), "done"),
            scripted(tokens(), "a summary"),
        )
        self.agent = SavedAgent(folder, answers, tools=(Echo(act=self._wait),))
        self.agent.agent.submit("go")
        assert self.inside.wait(PATIENCE_S)

    def _wait(self, arguments: object, running: object) -> Outcome:
        self.inside.set()
        assert self.gate.wait(PATIENCE_S)
        return Outcome("ok")

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *error: object) -> None:
        self.gate.set()
        self.agent.close()


@pytest.mark.parametrize(
    "line", ["/new", "/switch ab", "/del ab", "/strip ab", "/history", "/think", "/nothink", "/steer off", "/quit"]
)
def test_what_needs_an_idle_agent_says_so(tmp_path: Path, line: str) -> None:
    with Held(tmp_path) as held:
        outcome = held.agent.commands.obey(line)
        assert (outcome.is_error, outcome.is_known, outcome.leaves) == (True, True, False)
        assert "the agent is at work" in outcome.text


def test_what_does_not_works_at_once(tmp_path: Path) -> None:
    with Held(tmp_path) as held:
        assert "/switch" in held.agent.commands.obey("/help").text
        assert held.agent.commands.obey("/list").text.startswith("*")
        assert "cannot be set" in held.agent.commands.obey("/power").text  # behind a script


def test_save_and_compact_wait_for_the_next_safe_point(tmp_path: Path) -> None:
    with Held(tmp_path) as held:
        agent = held.agent
        assert "next safe point" in agent.commands.obey("/save").text
        held.gate.set()
        assert agent.agent.wait_idle(PATIENCE_S)
        notices = [event.text for event in agent.ear.of(Notice)]
        assert any(text.startswith("saved as") for text in notices)
        assert "next safe point" not in agent.obeys("/compact").text


def test_a_turn_that_begins_in_between_is_not_cut_in_two(tmp_path: Path) -> None:
    with Held(tmp_path) as held:
        errors: list[str] = []

        def work() -> None:
            try:
                held.agent.sessions.begin_new()
            except UsageError as error:
                errors.append(str(error))

        held.agent.agent.request(work)  # as if it had been idle a moment ago
        held.gate.set()
        assert held.agent.agent.wait_idle(PATIENCE_S)
        assert "at work" in errors[0]
        assert "go" in held.agent.obeys("/history").text


def test_an_agent_that_has_ended_answers_with_an_error(tmp_path: Path) -> None:
    agent = SavedAgent(tmp_path)
    agent.close()
    outcome = agent.commands.obey("/history")
    assert outcome.is_error
    assert "has ended" in outcome.text


def test_without_sessions_commands_about_them_say_so(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as agent:
        commands = Commands(agent.agent, None, None, agent.asked)
        for line in ("/save", "/list", "/switch ab", "/del ab", "/strip ab"):
            outcome = commands.obey(line)
            assert outcome.is_error
            assert "only of a model that runs here" in outcome.text
        assert "cannot be steered" in commands.obey("/steer off").text
        assert commands.obey("/new").text == "a new session"
        assert commands.obey("/quit").leaves
        assert commands.completions("/switch ") == []


# texts


def test_ages() -> None:
    assert [age_text(seconds) for seconds in (-5, 59, 60, 3599, 3600, 86399, 86400, 10 * 86400)] == [
        "now",
        "now",
        "1 min",
        "59 min",
        "1 h",
        "23 h",
        "1 d",
        "10 d",
    ]


def test_a_list_without_anything() -> None:
    assert list_text(Listing(()), "", 0.0) == "No sessions are saved yet."
    assert list_text(Listing((), ("x",), 2), "", 0.0) == "not usable: x\nnot shown: 2 of other models"


@given(st.text(max_size=30))
def test_no_line_upsets_it(line: str) -> None:
    commands = object.__new__(Commands)
    commands._agent = type("Idle", (), {"is_busy": True})()  # type: ignore[assignment]
    commands._saved = commands._engine = None
    outcome = commands.obey("/x" + line)
    assert not outcome.is_known
    commands.completions("/switch " + line)


def test_help_says_what_stands_behind_a_word() -> None:
    assert help_text({"/switch": "go on", "/new": "begin"}) == "/switch ID  go on\n/new        begin"
    assert help_text({}) == ""
