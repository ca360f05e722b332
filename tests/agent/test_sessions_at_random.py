"""Anything in any order, with the bundled model: no session ever loses a token or gets another's, and none is read
twice."""

import random
from pathlib import Path

import pytest

from agent.saved_agent import SavedAgent
from agent.test_sessions import readings
from whitedwarf.agent.events import Compacting
from whitedwarf.agent.session_reading import FEW_TOKENS

WORDS = (
    "list the files",
    "write a poem",
    "what is 2 + 2",
    "read a.txt and b.txt",
    "again",
    "no, the other one\n\nplease",
)


class Life:
    """What is expected of a folder of sessions, beside the agents that use it one after another."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.said: dict[str, list[int]] = {}
        self.has_state: dict[str, bool] = {}
        self.agent = SavedAgent(folder)

    def act(self) -> str:
        actions = [self.say, self.say, self.say, self.restart, self.switch, self.switch, self.new]
        actions += [self.compact, self.strip, self.delete, self.save, self.interrupt]
        action = self.random.choice(actions)
        action()
        return action.__name__

    def check(self) -> None:
        current = self.agent.sessions.current_id
        assert self.agent.sessions.is_kept
        assert self.agent.sessions.flush() == ""
        assert {entry.id for entry in self.agent.sessions.listing().entries} == set(self.said)
        for session_id, ids in self.said.items():
            if session_id != current:
                assert self.agent.sessions.store.read(session_id)[0].tolist() == ids

    def say(self) -> None:
        agent = self.agent
        num_readings, num_shortened = len(readings(agent)), len(agent.ear.of(Compacting))
        unread = agent.sessions._reading.unread(agent.dialogue.ids)
        is_new, known = not agent.sessions.has_words, len(agent.ids)
        agent.says(self.random.choice(WORDS))
        self._remember()
        new = readings(agent)[num_readings:]
        if new and unread is not None and not is_new and len(agent.ear.of(Compacting)) == num_shortened:
            assert new[0][0] == known - unread  # nothing was read twice

    def interrupt(self) -> None:
        self.agent.agent.submit(self.random.choice(WORDS))
        self.agent.agent.interrupt()
        assert self.agent.agent.wait_idle(20)
        self._remember()

    def restart(self) -> None:
        self.agent.close()
        self.agent = SavedAgent(self.folder)

    def switch(self) -> None:
        session_id = self._another()
        if session_id is None:
            return
        outcome = self.agent.obeys(f"/switch {session_id[:12]}")
        assert not outcome.is_error, outcome.text
        assert self.agent.ids == self.said[session_id]
        if self.has_state[session_id]:
            assert "read again" not in outcome.text
            unread = self.agent.sessions._reading.unread(self.agent.dialogue.ids)
            assert unread is not None
            assert unread < len(self.agent.ids)

    def new(self) -> None:
        assert not self.agent.obeys("/new").is_error

    def compact(self) -> None:
        outcome = self.agent.obeys("/compact")
        assert not outcome.is_error or outcome.text
        if self.agent.sessions.current_id:
            self._remember()

    def save(self) -> None:
        outcome = self.agent.obeys("/save")
        assert outcome.is_error == (not self.agent.sessions.has_words)

    def strip(self) -> None:
        session_id = self._another()
        if session_id is not None:
            assert not self.agent.obeys(f"/strip {session_id[:12]}").is_error
            self.has_state[session_id] = False

    def delete(self) -> None:
        session_id = self._another()
        if session_id is not None and self.random.random() < 0.3:
            assert not self.agent.obeys(f"/del {session_id[:12]}").is_error
            del self.said[session_id]

    def _another(self) -> str | None:
        others = sorted(set(self.said) - {self.agent.sessions.current_id})
        return self.random.choice(others) if others else None

    def _remember(self) -> None:
        session_id = self.agent.sessions.current_id
        if session_id:
            self.said[session_id] = self.agent.ids
            unread = self.agent.sessions._reading.unread(self.agent.dialogue.ids)
            is_whole = unread is not None and unread <= FEW_TOKENS
            self.has_state[session_id] = is_whole


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_anything_in_any_order_loses_nothing(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    try:
        for _ in range(30):
            life.act()
            life.check()
    finally:
        life.agent.close()
