"""A session that is frozen between two requests and made again goes on as if nothing had been."""

import numpy as np
import pytest

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FakeModel, FakeSnapshot, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, Completion, FinishReason, GenerateOptions
from whitedwarf.engine.scripted import ScriptedAnswer, ScriptedEngine
from whitedwarf.engine.session import Session, SessionSnapshot
from whitedwarf.errors import BackendError, EngineBusyError, UsageError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
SUFFIX = [50, 51]


def ask(engine: Engine, session: Session, ids: list[int], count: int = 3) -> Completion:
    options = GenerateOptions(max_tokens=count, sampling=GREEDY)
    completion = engine.submit(ids, options, session=session).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(ids, count, 64)
    return completion


def frozen(ids: list[int] = PROMPT) -> SessionSnapshot:
    with Engine(FakeModel()) as engine:
        session = engine.new_session()
        ask(engine, session, ids, 0)
        return engine.snapshot(session)


def test_another_engine_goes_on_from_a_snapshot_and_reads_nothing_again() -> None:
    saved, model = frozen(), FakeModel()
    with Engine(model) as engine:
        session = engine.new_session(saved)
        assert session.ids == PROMPT
        answer = ask(engine, session, PROMPT + SUFFIX)
    assert answer.finished.reused_tokens == len(PROMPT)
    assert model.rows == 2 + 2


def test_a_session_goes_on_beside_its_snapshot() -> None:
    with Engine(FakeModel()) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT, 0)
        saved = engine.snapshot(session)
        ask(engine, session, PROMPT + SUFFIX)
        for _ in range(2):  # one snapshot serves many
            other = engine.new_session(saved)
            assert ask(engine, other, [*PROMPT, 9, 9]).finished.reused_tokens == len(PROMPT)


def test_a_snapshot_of_a_session_that_was_not_used_yet_is_what_it_was_made_from() -> None:
    saved = frozen()
    with Engine(FakeModel()) as engine:
        again = engine.snapshot(engine.new_session(saved))
        empty = engine.snapshot(engine.new_session())
    assert again.ids.tolist() == PROMPT
    assert again.state is saved.state
    assert (empty.ids.tolist(), empty.state) == ([], None)


def test_a_prompt_that_parts_from_the_snapshot_is_read_from_the_start() -> None:
    with Engine(FakeModel()) as engine:
        session = engine.new_session(frozen())
        assert ask(engine, session, [*PROMPT[:5], 7]).finished.reused_tokens == 0


def test_a_session_that_is_at_work_has_no_snapshot() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate)) as engine:
        session = engine.new_session()
        generation = engine.submit(PROMPT, GenerateOptions(max_tokens=0), session=session)
        with pytest.raises(EngineBusyError, match="of this session"):
            engine.snapshot(session)
        assert engine.snapshot(engine.new_session()).state is None  # others may be asked
        gate.open()
        generation.result(PATIENCE_S)
        assert engine.snapshot(session).ids.tolist() == PROMPT


def test_right_after_the_end_was_told_there_is_one() -> None:
    with Engine(FakeModel()) as engine:
        session = engine.new_session()
        ids = list(PROMPT)
        for _ in range(200):
            ids.append(5)
            ask(engine, session, ids, 0)
            assert engine.snapshot(session).ids.tolist() == ids


def test_after_a_cancel_the_snapshot_is_a_prefix_of_the_prompt() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate), max_chunk_tokens=2) as engine:
        session = engine.new_session()
        generation = engine.submit(PROMPT, session=session)
        gate.let_through()
        gate.wait_for_pass(2)
        generation.cancel()
        gate.open()
        assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        saved = engine.snapshot(session)
    assert saved.ids.tolist() == PROMPT[: len(saved.ids)]
    assert saved.state is not None
    assert saved.state.position == len(saved.ids) > 0


def test_a_state_that_cannot_be_restored_fails_its_request_and_nothing_else() -> None:
    class Broken(FakeSnapshot):
        @property
        def position(self) -> int:
            return 3

    with Engine(FakeModel()) as engine:
        session = engine.new_session(SessionSnapshot(np.array([1, 2, 3], np.int32), Broken((1, 2))))
        with pytest.raises((BackendError, AssertionError)):
            engine.submit([1, 2, 3, 4], session=session).result(PATIENCE_S)
        assert ask(engine, session, PROMPT).finished.reused_tokens == 0


def test_ids_and_a_state_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError, match="expected a state of 2 tokens"):
        SessionSnapshot(np.array([1, 2], np.int32), FakeSnapshot((1, 2, 3)))


def test_a_session_of_another_engine_is_refused() -> None:
    with Engine(FakeModel()) as engine, Engine(FakeModel()) as other:
        session = other.new_session()
        with pytest.raises(UsageError, match="another engine"):
            engine.snapshot(session)


def test_a_closed_engine_still_gives_what_it_holds() -> None:
    with Engine(FakeModel()) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT, 0)
    assert engine.snapshot(session).ids.tolist() == PROMPT


def test_a_script_has_no_states() -> None:
    with ScriptedEngine([ScriptedAnswer(((1, 2),))], context_length=64, vocab_size=8) as engine:
        saved = engine.snapshot(engine.new_session())
        assert saved.state is None
        assert engine.submit([1, 2], session=engine.new_session(saved)).result(PATIENCE_S).ids == [1, 2]


# another model in the same engine


def test_an_engine_goes_on_with_another_model_and_old_sessions_are_not_its_own() -> None:
    first, second = FakeModel(), FakeModel()
    with Engine(first) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT)
        rows = first.rows
        engine.change_model(second)
        with pytest.raises(UsageError, match="another engine"):
            engine.submit(PROMPT, session=session)
        assert ask(engine, engine.new_session(), PROMPT).finished.reused_tokens == 0
        assert engine.submit(PROMPT, GenerateOptions(max_tokens=0)).result(PATIENCE_S)
    assert first.rows == rows
    assert second.rows == 2 * len(PROMPT) + 2


def test_no_model_is_changed_under_a_request() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate)) as engine:
        generation = engine.submit(PROMPT, GenerateOptions(max_tokens=0))
        with pytest.raises(EngineBusyError, match="a request is waiting"):
            engine.change_model(FakeModel())
        gate.open()
        generation.result(PATIENCE_S)
        engine.change_model(FakeModel())


def test_models_that_do_not_fit_and_engines_that_remember_are_refused() -> None:
    with Engine(FakeModel()) as engine:
        for other in (FakeModel(vocab_size=32), FakeModel(context_length=8)):
            with pytest.raises(UsageError, match="same vocabulary and context"):
                engine.change_model(other)
    with Engine(FakeModel(), prefix_budget_bytes=1 << 20) as engine, pytest.raises(UsageError, match="remembers"):
        engine.change_model(FakeModel())
