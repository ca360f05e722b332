"""The agent's session goes to disk as it goes on, and comes back after any end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.saved_agent import SHORT, SavedAgent
from agent.scripted_agent import Echo, block, call, scripted
from agent.store_bench import steered, tokens
from whitedwarf.agent import sessions
from whitedwarf.agent.approval import USUAL_RULES, NobodyToAsk, Policy, Rule
from whitedwarf.agent.events import AnswerEnd, Compacting, Notice, Reading, SessionChanged
from whitedwarf.agent.sessions import SessionSettings
from whitedwarf.agent.tool import Effect
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.kvstore.file import KvFile

ROOT = Path(__file__).resolve().parents[2]


def readings(agent: SavedAgent) -> list[tuple[int, int]]:
    """(reused, new) of everything that was read, in order."""
    return [(event.reused, event.total) for event in agent.ear.of(Reading) if event.done == event.total]


def errors(agent: SavedAgent) -> list[str]:
    return [event.text for event in agent.ear.of(Notice) if event.is_error]


def test_after_a_restart_nothing_old_is_read_again(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as first:
        first.says("write a poem about stars", "and one about the sea")
        kept, session_id = first.ids, first.sessions.current_id
    assert {path.name for path in tmp_path.iterdir()} == {f"{session_id}.kv", "sysprompt.kv"}
    with SavedAgent(tmp_path) as second:
        outcome = second.obeys(f"/switch {session_id[:6]}")
        assert second.ids == kept
        assert not outcome.is_error
        assert "and one about the sea" in outcome.text
        assert "write a poem" in outcome.text
        second.says("and a third")
        ((reused, new),) = readings(second)
    assert reused == len(kept)
    assert new < 20  # the new words


def test_it_goes_on_with_the_same_tokens_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    with SavedAgent(tmp_path / "a") as whole:
        whole.says("write a poem about stars", "and one about the sea", "and a third")
        expected = whole.ids
        date = whole.ids[:60]
    with SavedAgent(tmp_path / "b") as first:
        first.says("write a poem about stars", "and one about the sea")
        session_id = first.sessions.current_id
    with SavedAgent(tmp_path / "b") as second:
        second.obeys(f"/switch {session_id}")
        second.says("and a third")
        if second.ids[:60] == date:  # the minute may have changed
            assert second.ids == expected


def test_a_start_reads_nothing_of_the_system_prompt(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as first:
        opening = len(first.ids)
        first.says("hello")
        assert readings(first)[0] == (0, opening)
        assert readings(first)[1][0] == opening
    with SavedAgent(tmp_path) as second:
        second.says("hello again")
        assert [reused for reused, _ in readings(second)] == [opening]
        second.obeys("/new")
        second.says("and again")
        assert [reused for reused, _ in readings(second)] == [opening, opening]


def test_another_system_prompt_is_read_and_kept_instead(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as first:
        first.says("hello")
    other = replace(SHORT, system="You help, and you are brief.")
    for expected in (0, 1):
        with SavedAgent(tmp_path, settings=other) as second:
            second.says("hello")
            assert (readings(second)[0][0] > 0) == bool(expected)


TOOLS = (Echo("look"), Echo("bash", effect=Effect.RUN), Echo("write", effect=Effect.WRITE))


def test_what_was_set_comes_back_and_new_sessions_begin_without_it(tmp_path: Path) -> None:
    with SavedAgent(tmp_path, policy=Policy(NobodyToAsk(), by_tool={"look": Rule.DENY}), tools=TOOLS) as first:
        first.agent.policy.by_tool["bash"] = Rule.AUTO  # as Policy.check does
        first.obeys("/think")
        first.says("hello")
        session_id = first.sessions.current_id
    with SavedAgent(tmp_path, policy=Policy(NobodyToAsk()), tools=TOOLS) as second:
        assert second.dialogue.thinking is Thinking.NONE
        outcome = second.obeys(f"/switch {session_id}")
        assert second.dialogue.thinking is Thinking.HIGH
        assert second.agent.policy.by_tool == {"bash": Rule.AUTO}
        assert "Remembered for its tools: bash auto." in outcome.text
        second.obeys("/new")
        assert second.agent.policy.by_tool == {}


@pytest.mark.parametrize(
    "policy",
    [
        Policy(NobodyToAsk(), by_tool={"bash": Rule.DENY}),
        Policy(NobodyToAsk(), {**USUAL_RULES, Effect.RUN: Rule.DENY}),
    ],
)
def test_what_was_allowed_once_is_not_allowed_where_it_is_forbidden_now(tmp_path: Path, policy: Policy) -> None:
    with SavedAgent(tmp_path, policy=Policy(NobodyToAsk()), tools=TOOLS) as first:
        first.agent.policy.by_tool |= {"bash": Rule.AUTO, "write": Rule.AUTO}
        first.says("hello")
        session_id = first.sessions.current_id
    with SavedAgent(tmp_path, policy=policy, tools=TOOLS) as second:
        outcome = second.obeys(f"/switch {session_id}")
        assert "Remembered for its tools: write auto." in outcome.text
        assert policy.rule(TOOLS[1]) is Rule.DENY
        assert policy.rule(TOOLS[2]) is Rule.AUTO


def test_what_was_allowed_in_another_folder_is_asked_again_here(tmp_path: Path) -> None:
    elsewhere = SessionSettings("nano", "/elsewhere")
    with SavedAgent(tmp_path, policy=Policy(NobodyToAsk()), tools=TOOLS, sessions_settings=elsewhere) as first:
        first.agent.policy.by_tool |= {"bash": Rule.AUTO, "write": Rule.DENY}
        first.says("hello")
        session_id = first.sessions.current_id
    with SavedAgent(tmp_path, policy=Policy(NobodyToAsk()), tools=TOOLS) as second:
        outcome = second.obeys(f"/switch {session_id}")
        assert second.agent.policy.by_tool == {"write": Rule.DENY}
        assert "It was in /elsewhere; now it is in /work." in outcome.text
        assert "Remembered for its tools: write deny." in outcome.text


def test_a_session_is_on_disk_from_its_first_words(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as agent:
        seen = []
        agent.ear.on = lambda event: seen.append(event) if isinstance(event, SessionChanged) else None
        agent.says("  first\n words ")
        assert [event.title for event in seen] == ["first words"]
        assert seen[0].id == agent.sessions.current_id
        (entry,) = agent.sessions.listing().entries
        assert entry.title == "first words"
        assert agent.sessions.flush() == ""
        (entry,) = agent.sessions.listing().entries
        assert (entry.is_stripped, entry.num_tokens) == (False, len(agent.ids))


def test_a_switch_to_a_stripped_session_reads_it_and_answers_alike(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as agent:
        agent.says("write a poem about stars")
        session_id = agent.sessions.current_id
    path = tmp_path / f"{session_id}.kv"
    saved, answers = path.read_bytes(), []
    for is_stripped in (False, True):
        path.write_bytes(saved)
        with SavedAgent(tmp_path) as agent:
            if is_stripped:
                assert agent.obeys(f"/strip {session_id}").text == f"stripped {session_id[:8]}"
            outcome = agent.obeys(f"/switch {session_id}")
            assert ("read again: no state" in outcome.text) == is_stripped
            before = len(agent.ids)
            agent.says("more")
            answers.append(agent.ids[before:])
    assert answers[0] == answers[1]


def test_a_long_turn_with_tools_is_noted_round_by_round(tmp_path: Path) -> None:
    answers = (
        scripted(tokens(), *block(call("echo", text="a"))),
        scripted(tokens(), *block(call("echo", text="b"))),
        scripted(tokens(), "done"),
    )
    seen: list[int] = []
    with SavedAgent(tmp_path, answers, tools=(Echo(),)) as agent:
        agent.ear.on = lambda event: seen.append(journal_size(tmp_path))
        agent.says("go")
        kept, session_id = agent.ids, agent.sessions.current_id
    assert len(set(seen)) >= 4  # two calls and what came of them, the last words
    with SavedAgent(tmp_path, answers) as agent:
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept


def test_the_state_of_a_long_turn_is_written_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts here as one of a turn that goes on, and no turn's end as one."""
    monkeypatch.setattr(sessions, "STATE_STEP_TOKENS", 20)
    monkeypatch.setattr(sessions, "_GOING_ON", tuple(AnswerEnd))
    monkeypatch.setattr(sessions.Sessions, "keep", lambda self: None)
    with SavedAgent(tmp_path) as agent:
        agent.says("write a poem about stars")
        assert agent.sessions.flush() == ""
        (entry,) = agent.sessions.listing().entries
        kept, session_id = agent.ids, entry.id
        assert not entry.is_stripped
        assert 0 < len(kept) - entry.num_tokens <= 3  # the last token drawn, and what closes the answer
    with SavedAgent(tmp_path) as agent:
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept
        agent.says("more")
        assert readings(agent)[0][0] == entry.num_tokens


def test_a_context_that_was_shortened_in_a_turn_is_written_at_once(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as agent:
        agent.says("write a poem about stars")
        agent.sessions._offered_tokens = len(agent.ids) + 1  # as if it had been longer before
        offered: list[int] = []
        agent.sessions._offer = lambda reads_on=True: offered.append(reads_on)  # type: ignore[method-assign]
        agent.sessions._offer_now_and_then()
        agent.sessions._offered_tokens = len(agent.ids) - 10
        agent.sessions._offer_now_and_then()
        assert offered == [False]


def journal_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.journal"))


def test_an_interrupted_turn_is_kept_too(tmp_path: Path) -> None:
    with SavedAgent(tmp_path, settings=replace(SHORT, max_answer_tokens=3000)) as agent:
        agent.agent.submit("write a long poem")
        agent.ear.wait_for(Reading)
        time.sleep(0.3)
        agent.agent.interrupt()
        assert agent.agent.wait_idle(20)
        kept, session_id = agent.ids, agent.sessions.current_id
    with SavedAgent(tmp_path) as agent:
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept
        agent.says("go on")
        assert readings(agent)[0][0] == len(kept)


def test_a_compaction_that_was_interrupted_costs_no_reading(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as agent:
        agent.says("write a poem about stars")
        kept, session_id = agent.ids, agent.sessions.current_id
        agent.ear.on = lambda event: agent.agent.interrupt() if isinstance(event, Compacting) and event.done else None
        agent.agent.request(agent.agent.compact)
        assert agent.agent.wait_idle(20)
        agent.ear.on = lambda event: None
        assert agent.ear.of(Compacting)
        assert agent.ids == kept
        before = len(readings(agent))
        agent.says("more")
        assert readings(agent)[before][0] == len(kept)
        kept = agent.ids
    with SavedAgent(tmp_path) as agent:
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept
        agent.says("and more")
        assert readings(agent)[0][0] == len(kept)


def test_without_autosave_nothing_is_written_until_it_is_asked_for(tmp_path: Path) -> None:
    with SavedAgent(tmp_path, sessions_settings=SessionSettings(autosave=False)) as agent:
        agent.says("hello")
        assert agent.sessions.listing().entries == ()
        assert not agent.sessions.is_kept
        outcome = agent.obeys("/save")
        assert outcome.text.startswith("saved as")
        assert agent.sessions.is_kept
        agent.says("more")
        agent.asked.answers = [False]
        assert agent.obeys("/quit").leaves  # its tokens are in the journal
        kept, session_id = agent.ids, agent.sessions.current_id
    with SavedAgent(tmp_path) as agent:
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept


def test_a_steered_session_is_read_again_without_it(tmp_path: Path) -> None:
    loaded = steered(SavedAgent.__dataclass_fields__["loaded"].default_factory())  # type: ignore[misc]
    with SavedAgent(tmp_path, loaded=loaded) as first:
        first.says("hello")
        session_id = first.sessions.current_id
    with SavedAgent(tmp_path) as second:
        outcome = second.obeys(f"/switch {session_id}")
        assert "read again: its state was made under a steering" in outcome.text
        assert readings(second)[0][0] == 0


# trouble


def test_a_full_disk_is_told_once_and_the_turns_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from whitedwarf.kvstore import directory

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with SavedAgent(tmp_path) as agent:
        with monkeypatch.context() as patch:
            patch.setattr(directory, "write_all", full)
            agent.says("hello", "more")
            assert not agent.sessions.is_kept
            agent.asked.answers = [False]
            assert not agent.obeys("/quit").leaves
            assert "could not be saved" in agent.asked.texts[-1]
            agent.asked.answers = [True]
            assert agent.obeys("/quit").leaves
        assert len([text for text in errors(agent) if "not being saved" in text]) == 1
        assert agent.file_names() == set()
        agent.says("again")  # there is room now
        assert agent.sessions.flush() == ""
        assert agent.sessions.is_kept
        assert len(agent.sessions.listing().entries) == 1


def test_a_save_that_fails_on_the_writers_thread_is_told_and_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whitedwarf.agent.open_session import OpenSession

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with SavedAgent(tmp_path) as agent:
        agent.says("hello")
        assert agent.sessions.flush() == ""
        with monkeypatch.context() as patch:
            patch.setattr(OpenSession, "save", full)
            agent.says("more")
            assert "No space" in agent.sessions.flush()
            assert agent.agent.wait_idle(20)
            assert any("No space" in text for text in errors(agent))
            agent.asked.answers = [True]
            assert agent.obeys("/quit").leaves
        kept, session_id = agent.ids, agent.sessions.current_id
    with SavedAgent(tmp_path) as agent:  # the journal has what the file has not
        agent.obeys(f"/switch {session_id}")
        assert agent.ids == kept
        assert readings(agent) == []


def test_a_save_that_fails_when_the_agent_has_ended_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from whitedwarf.agent.open_session import OpenSession

    has_ended = threading.Event()

    def full(*_: object) -> int:
        has_ended.wait(60)
        raise OSError(28, "No space left on device")

    with SavedAgent(tmp_path) as agent:
        agent.says("hello")
        assert agent.sessions.flush() == ""
        monkeypatch.setattr(OpenSession, "save", full)
        agent.says("more")
        agent.agent.close()
        has_ended.set()
        agent.sessions.close()
        agent.sessions.close()
        assert len([text for text in errors(agent) if "No space" in text]) == 1


def test_two_processes_do_not_get_one_session(tmp_path: Path) -> None:
    with SavedAgent(tmp_path) as first, SavedAgent(tmp_path) as second:
        first.says("hello")
        session_id = first.sessions.current_id
        for line in (f"/switch {session_id}", f"/del {session_id}", f"/strip {session_id}"):
            outcome = second.obeys(line)
            assert outcome.is_error
            assert "open in another process" in outcome.text
        first.obeys("/new")
        assert not second.obeys(f"/switch {session_id}").is_error


@pytest.mark.parametrize("name", ["hello"])
def test_a_switch_that_fails_changes_nothing(tmp_path: Path, name: str) -> None:
    with SavedAgent(tmp_path) as agent:
        agent.says(name)
        other = agent.sessions.current_id
        agent.obeys("/new")
        agent.says("second")
        kept, current = agent.ids, agent.sessions.current_id
        path = tmp_path / f"{other}.kv"
        path.write_bytes(path.read_bytes()[:-3])
        outcome = agent.obeys(f"/switch {other}")
        assert outcome.is_error
        assert "damaged" in outcome.text
        assert (agent.ids, agent.sessions.current_id) == (kept, current)
        agent.says("third")


AGENT = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from agent.saved_agent import SHORT, SavedAgent

    agent = SavedAgent(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        agent.obeys("/switch " + sys.argv[2])
    print(agent.sessions.current_id, flush=True)
    for number in range(10_000):
        agent.says(f"turn {number} has begun here")
        print(number, agent.sessions.current_id, len(agent.ids), flush=True)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.0, 0.013, 0.031, 0.07, 0.11])
def test_a_kill_in_the_middle_of_saving_loses_at_most_the_turn(tmp_path: Path, delay_s: float) -> None:
    """Killed again and again, at other places each time; every time it goes on from what was told to be done."""
    turns, session_id = 0, ""
    for kill in range(3):
        command = [sys.executable, "-c", AGENT, str(tmp_path), *([session_id] if session_id else [])]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(2 + kill):
                number, session_id, length = process.stdout.readline().split()
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
            rest = [line.split() for line in process.stdout if len(line.split()) == 3]
        number, _, length = rest[-1] if rest else (number, session_id, length)
        turns += int(number) + 1
    with SavedAgent(tmp_path) as agent:
        outcome = agent.obeys(f"/switch {session_id}")
        assert not outcome.is_error, outcome.text
        assert len(agent.ids) >= int(length)
        assert agent.commands._history is not None
        assert turns <= agent.commands._history.num_turns(agent.dialogue.ids) <= turns + 3
        with KvFile(tmp_path / f"{session_id}.kv") as file:
            assert file.header.payload_bytes
            read = file.header.num_tokens
        agent.says("go on")
        assert readings(agent)[0][0] == read > 0  # only what came behind the state was read
    assert agent.file_names() == {f"{session_id}.kv", "sysprompt.kv"}
