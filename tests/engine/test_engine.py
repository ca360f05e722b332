"""What a caller sees: tokens, events, limits, and the same answer whoever runs beside it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FakeModel, expected_logits, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import (
    GREEDY,
    Finished,
    FinishReason,
    GenerateOptions,
    Prefilled,
    SamplingOptions,
    Token,
)
from whitedwarf.errors import ContextOverflowError, EngineBusyError, EngineClosedError, UsageError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
VOCAB = 64


def greedy(max_tokens: int, **others: object) -> GenerateOptions:
    return GenerateOptions(max_tokens=max_tokens, sampling=GREEDY, **others)  # type: ignore[arg-type]


def test_greedy_tokens_are_the_models_own() -> None:
    with Engine(FakeModel()) as engine:
        completion = engine.submit(PROMPT, greedy(12)).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(PROMPT, 12, VOCAB)
    assert completion.finished.reason is FinishReason.LENGTH


def test_events_tell_progress_per_chunk_then_tokens_then_the_end() -> None:
    with Engine(FakeModel(), max_chunk_tokens=3) as engine:
        events = list(engine.submit(PROMPT, greedy(2)))
    assert events[:4] == [Prefilled(0, 8), Prefilled(3, 8), Prefilled(6, 8), Prefilled(8, 8)]
    assert events[4:6] == [Token(id) for id in greedy_continuation(PROMPT, 2, VOCAB)]
    finished = events[6]
    assert isinstance(finished, Finished)
    assert (finished.prompt_tokens, finished.generated_tokens, finished.reused_tokens) == (8, 2, 0)
    assert finished.prefill_s > 0
    assert finished.decode_s > 0
    assert len(events) == 7


@pytest.mark.parametrize("chunk", [1, 2, 5, 8, 100])
def test_any_chunk_size_gives_the_same_tokens_and_runs_every_row_once(chunk: int) -> None:
    model = FakeModel()
    with Engine(model, max_chunk_tokens=chunk) as engine:
        completion = engine.submit(PROMPT, greedy(6)).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(PROMPT, 6, VOCAB)
    assert model.rows == len(PROMPT) + 5  # the last token is drawn, not run


def test_only_the_logits_that_are_drawn_from_are_asked_for() -> None:
    wanted: list[str] = []
    model = FakeModel(before_forward=lambda spans: wanted.extend(span.logits for span in spans))
    with Engine(model, max_chunk_tokens=3) as engine:
        engine.submit(PROMPT, greedy(2)).result(PATIENCE_S)
    assert wanted == ["none", "none", "last", "last"]


request = st.tuples(
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20),
    st.integers(0, 12),
    st.integers(0, 1000),
    st.sampled_from([0.0, 1.0]),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(request, min_size=2, max_size=6), st.integers(1, 9), st.integers(1, 4))
def test_companions_never_change_a_token(
    requests: list[tuple[list[int], int, int, float]], chunk: int, parallel: int
) -> None:
    options = [
        GenerateOptions(count, sampling=SamplingOptions(temperature, seed=seed))
        for _, count, seed, temperature in requests
    ]
    prompts = [prompt for prompt, *_ in requests]
    with Engine(FakeModel(), max_parallel=1) as engine:
        alone = [engine.submit(*pair).result(PATIENCE_S).ids for pair in zip(prompts, options, strict=True)]
    with Engine(FakeModel(), max_chunk_tokens=chunk, max_parallel=parallel) as engine:
        generations = [engine.submit(*pair) for pair in zip(prompts, options, strict=True)]
        together = [generation.result(PATIENCE_S).ids for generation in generations]
    assert together == alone


def test_a_stream_gets_a_token_beside_every_chunk_of_a_long_prompt() -> None:
    gate = Gate()
    model = FakeModel(before_forward=gate)
    with Engine(model, max_chunk_tokens=4) as engine:
        stream = engine.submit(PROMPT[:2], greedy(100))
        gate.wait_for_pass(1)
        long = engine.submit([7] * 20, greedy(1))
        gate.let_through(6)
        gate.wait_for_pass(7)
        assert gate.passes[1:6] == [(1, 4)] * 5
        assert long.result(PATIENCE_S).ids == greedy_continuation([7] * 20, 1, VOCAB)
        stream.cancel()
        gate.open()


def test_two_long_prompts_take_turns() -> None:
    gate = Gate()
    seen: list[int] = []

    def look(spans: object) -> None:
        seen.extend(int(span.ids[0]) for span in spans)  # type: ignore[attr-defined]
        gate(spans)  # type: ignore[arg-type]

    with Engine(FakeModel(before_forward=look), max_chunk_tokens=4, max_parallel=2) as engine:
        first = engine.submit([1] * 12, greedy(0))
        gate.wait_for_pass(1)
        second = engine.submit([2] * 12, greedy(0))
        gate.open()
        first.result(PATIENCE_S)
        second.result(PATIENCE_S)
    assert seen == [1, 2, 1, 2, 1, 2]


def test_a_stop_id_ends_the_stream_and_is_not_one_of_its_tokens() -> None:
    answer = greedy_continuation(PROMPT, 5, VOCAB)
    stop = answer[3]
    assert stop not in answer[:3]
    with Engine(FakeModel()) as engine:
        completion = engine.submit(PROMPT, greedy(100, stop_ids=frozenset({stop}))).result(PATIENCE_S)
    assert completion.ids == answer[:3]
    assert completion.finished.reason is FinishReason.STOP
    assert completion.finished.stop_id == stop
    assert completion.finished.generated_tokens == 3


def test_logprobs_are_those_of_the_whole_distribution() -> None:
    with Engine(FakeModel()) as engine:
        (token,) = engine.submit(PROMPT, greedy(1, logprobs=2)).result(PATIENCE_S).tokens
    logits = expected_logits(PROMPT, VOCAB).astype(np.float64)
    probabilities = np.exp(logits) / np.exp(logits).sum()
    assert token.logprob == pytest.approx(np.log(probabilities.max()))
    assert [candidate.id for candidate in token.best] == np.argsort(-probabilities)[:2].tolist()


def test_the_answer_ends_where_the_context_does() -> None:
    with Engine(FakeModel(context_length=12)) as engine:
        completion = engine.submit(PROMPT, greedy(100)).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(PROMPT, 3, VOCAB)
    assert completion.finished.reason is FinishReason.LENGTH


def test_a_prompt_that_leaves_no_room_runs_and_answers_nothing() -> None:
    model = FakeModel(context_length=9)
    with Engine(model) as engine:
        completion = engine.submit(PROMPT, greedy(100)).result(PATIENCE_S)
    assert completion.ids == []
    assert completion.finished.reason is FinishReason.LENGTH
    assert model.rows == 8


def test_a_prompt_as_long_as_the_context_is_refused_before_any_work() -> None:
    model = FakeModel(context_length=8)
    with Engine(model) as engine, pytest.raises(ContextOverflowError, match=r"8 tokens .* context of 8"):
        engine.submit(PROMPT)
    assert model.num_states == 0


@pytest.mark.parametrize("ids", [[], [0, VOCAB], [-1], [0.5], [[1, 2]], [2**70], [True]], ids=str)
def test_what_is_not_a_prompt_is_refused(ids: list[int]) -> None:
    with Engine(FakeModel()) as engine, pytest.raises(UsageError):
        engine.submit(ids)


def test_arrays_are_prompts_too_and_are_not_kept() -> None:
    gate = Gate()
    prompt = np.array(PROMPT, np.int32)
    with Engine(FakeModel(before_forward=gate)) as engine:
        generation = engine.submit(prompt, greedy(4))
        prompt[:] = 0
        gate.open()
        assert generation.result(PATIENCE_S).ids == greedy_continuation(PROMPT, 4, VOCAB)


def test_one_request_too_many_is_refused_at_once() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate), max_parallel=1, max_waiting=2) as engine:
        first = engine.submit(PROMPT, greedy(1))
        gate.wait_for_pass(1)
        others = [engine.submit(PROMPT, greedy(1)) for _ in range(2)]
        with pytest.raises(EngineBusyError, match="2 requests are waiting"):
            engine.submit(PROMPT, greedy(1))
        gate.open()
        assert [generation.result(PATIENCE_S).ids for generation in others] == [first.result(PATIENCE_S).ids] * 2


def test_every_reader_gets_to_the_end() -> None:
    with Engine(FakeModel()) as engine:
        generation = engine.submit(PROMPT, greedy(2))
        list(generation)
        assert [type(event) for event in generation] == [Finished]
        assert isinstance(generation.next_event(), Finished)
        assert len(generation.result().tokens) == 2


def test_waiting_for_an_event_has_a_limit() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate)) as engine:
        generation = engine.submit(PROMPT, greedy(1))
        assert generation.next_event(PATIENCE_S) == Prefilled(0, 8)
        assert generation.next_event(0.01) is None
        with pytest.raises(TimeoutError):
            generation.result(0.01)
        gate.open()


def test_submitting_to_a_closed_engine_is_an_error() -> None:
    engine = Engine(FakeModel())
    engine.close()
    with pytest.raises(EngineClosedError):
        engine.submit(PROMPT)


@pytest.mark.parametrize("wrong", [{"max_tokens": -1}, {"logprobs": -1}, {"logprobs": 129}], ids=str)
def test_options_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        GenerateOptions(**wrong)  # type: ignore[arg-type]
