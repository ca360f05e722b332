"""/steer in a session: what was read before is read again, and states go to disk and come back under their steering."""

from pathlib import Path

import numpy as np
import pytest

from agent.saved_agent import SavedAgent
from agent.store_bench import nano
from agent.test_sessions import readings
from whitedwarf.kvstore.file import KvFile


@pytest.fixture
def directions(tmp_path: Path) -> Path:
    hp = nano().transformer.config.hp
    values = np.random.default_rng(1).normal(size=(len(hp.compress_ratios), hp.hidden_size))
    path = tmp_path / "some way.f32"
    (values / np.linalg.norm(values, axis=1, keepdims=True)).astype("<f4").tofile(path)
    return path


def test_everything_is_read_again_under_the_other_steering(tmp_path: Path, directions: Path) -> None:
    folder = tmp_path / "sessions"
    with SavedAgent(folder) as agent:
        assert agent.obeys("/steer").text == "steering: off"
        agent.says("hello")
        kept = agent.ids
        outcome = agent.obeys(f"/steer {directions} 3")
        assert outcome.text == f"steering: {directions}, ffn 3, attention 0"
        agent.says("more")
        steered = agent.ids
        assert steered[: len(kept)] == kept
        assert readings(agent)[-2][0] == 0  # the system's part, then the rest
        session_id = agent.sessions.current_id
        agent.sessions.flush()
        mark = mark_of(folder, session_id)
        assert agent.obeys("/steer 3").text == outcome.text
        agent.says("still the same")
        assert readings(agent)[-1][0] == len(steered)  # nothing was thrown away
        assert agent.obeys("/steer off").text == "steering: off"
        agent.says("and back")
        agent.sessions.flush()
        assert mark_of(folder, session_id) != mark
    assert agent.engine.is_running is False


def mark_of(folder: Path, session_id: str) -> int:
    with KvFile(folder / f"{session_id}.kv") as file:
        return file.header.model_mark


def test_a_steered_session_goes_on_under_its_steering_without_reading(tmp_path: Path, directions: Path) -> None:
    folder = tmp_path / "sessions"
    with SavedAgent(folder) as agent:
        agent.obeys(f"/steer {directions}")
        agent.says("hello")
        kept, session_id = agent.ids, agent.sessions.current_id
    with SavedAgent(folder) as agent:
        agent.obeys(f"/steer {directions}")
        outcome = agent.obeys(f"/switch {session_id}")
        assert "read again" not in outcome.text
        agent.says("more")
        assert readings(agent) == [(len(kept), readings(agent)[0][1])]
    with SavedAgent(folder) as agent:
        outcome = agent.obeys(f"/switch {session_id}")
        assert "under a steering" in outcome.text
        assert str(directions) in outcome.text
        assert readings(agent)[0][0] == 0


def test_what_is_no_steering_changes_nothing(tmp_path: Path, directions: Path) -> None:
    (tmp_path / "bad.f32").write_bytes(bytes(8))
    with SavedAgent(tmp_path / "sessions") as agent:
        agent.says("hello")
        kept = len(agent.ids)
        for argument, problem in (
            ("2", "no direction yet"),
            ("nowhere.f32", "there is none"),
            (f"{directions} 101", "-100 to 100"),
            (f"{tmp_path}/bad.f32", "of another model"),
        ):
            outcome = agent.obeys(f"/steer {argument}")
            assert outcome.is_error
            assert problem in outcome.text
        agent.says("more")
        assert readings(agent)[-1][0] == kept
