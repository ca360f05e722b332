"""One live sequence, continued: what is reused, what is rebuilt, and never a wrong token."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FakeModel, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, Completion, FinishReason, GenerateOptions, Prefilled
from whitedwarf.engine.session import Session
from whitedwarf.errors import BackendError, UsageError
from whitedwarf.model.base import Span

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def ask(engine: Engine, session: Session, ids: list[int], count: int = 3) -> Completion:
    options = GenerateOptions(max_tokens=count, sampling=GREEDY)
    completion = engine.submit(ids, options, session=session).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(ids, count, 64)
    return completion


def test_the_next_turn_runs_only_what_is_new() -> None:
    model = FakeModel()
    with Engine(model) as engine:
        session = engine.new_session()
        first = ask(engine, session, PROMPT)
        assert session.ids == PROMPT + first.ids[:2]  # the third was drawn, not run
        rows = model.rows
        second = ask(engine, session, [*PROMPT, *first.ids, 50, 51])
    assert second.finished.reused_tokens == 10
    assert model.rows - rows == 3 + 2
    assert model.num_states == 1


def test_progress_begins_with_what_was_reused() -> None:
    with Engine(FakeModel(), max_chunk_tokens=6) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT, 0)
        events = list(engine.submit([*PROMPT, *range(9)], GenerateOptions(max_tokens=0), session=session))
    assert events[:-1] == [Prefilled(8, 17), Prefilled(12, 17), Prefilled(17, 17)]


def test_a_small_step_back_is_rolled_back() -> None:
    model = FakeModel(max_rollback=4)
    with Engine(model) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT)
        edited = ask(engine, session, [*PROMPT[:7], 60, 61])
    assert edited.finished.reused_tokens == 7
    assert model.num_states == 1


def test_the_same_prompt_again_runs_its_last_token_again() -> None:
    with Engine(FakeModel(max_rollback=4)) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT)
        assert ask(engine, session, PROMPT).finished.reused_tokens == 7


def test_a_step_back_beyond_the_models_room_is_rebuilt() -> None:
    model = FakeModel(max_rollback=2)
    with Engine(model) as engine:
        session = engine.new_session()
        ask(engine, session, PROMPT)
        assert ask(engine, session, PROMPT[:5]).finished.reused_tokens == 0
    assert model.num_states == 2


def test_after_a_cancel_the_session_goes_on_from_a_valid_prefix() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate), max_chunk_tokens=2) as engine:
        session = engine.new_session()
        generation = engine.submit(PROMPT, session=session)
        gate.let_through()
        gate.wait_for_pass(2)
        generation.cancel()
        gate.open()
        assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        assert session.ids == PROMPT[:4]
        assert ask(engine, session, PROMPT).finished.reused_tokens == 4


def test_after_a_failure_the_session_is_rebuilt() -> None:
    model = FakeModel()
    with Engine(model) as engine:
        session = engine.new_session()
        prompt = PROMPT + ask(engine, session, PROMPT).ids

        def fail(spans: Sequence[Span]) -> None:
            raise RuntimeError("once")

        model.before_forward = fail
        failed = engine.submit(prompt, session=session)
        assert failed.next_event(PATIENCE_S) == Prefilled(10, 11)
        with pytest.raises(BackendError, match="once"):
            failed.result(PATIENCE_S)
        model.before_forward = None
        assert session.ids == []
        assert ask(engine, session, prompt).finished.reused_tokens == 0


def test_requests_on_one_session_run_one_after_another() -> None:
    model = FakeModel()
    options = GenerateOptions(max_tokens=5, sampling=GREEDY)
    with Engine(model) as engine:
        session = engine.new_session()
        generations = [engine.submit([*PROMPT, n], options, session=session) for n in range(4)]
        for n, generation in enumerate(generations):
            assert generation.result(PATIENCE_S).ids == greedy_continuation([*PROMPT, n], 5, 64)
    assert all(len(batch) == 1 for batch in model.batches)


def test_another_engines_session_is_refused() -> None:
    with Engine(FakeModel()) as one, Engine(FakeModel()) as other, pytest.raises(UsageError, match="another engine"):
        one.submit(PROMPT, session=other.new_session())


prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=2, max_size=6)


@settings(max_examples=40, deadline=None)
@given(prompts, st.integers(0, 5), st.integers(1, 5))
def test_whatever_came_before_the_answer_is_the_same(ids: list[list[int]], room: int, chunk: int) -> None:
    with Engine(FakeModel(max_rollback=room), max_chunk_tokens=chunk) as engine:
        session = engine.new_session()
        for prompt in ids:
            ask(engine, session, prompt, 2)
