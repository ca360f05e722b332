"""The scripted engine keeps the promises of the real one, and answers what the script says."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import (
    Finished,
    FinishReason,
    GenerateOptions,
    MissReason,
    Prefilled,
    Reuse,
    Token,
    TokenScore,
)
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.engine.seen_prefixes import SeenPrefixes
from whitedwarf.errors import ContextOverflowError, EngineBusyError, EngineClosedError, UsageError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
VOCAB = 64
LONG_S = 60.0  # much longer than any test waits


def scripted(*answers: ScriptedAnswer, max_parallel: int = 8, max_waiting: int = 256) -> ScriptedEngine:
    return ScriptedEngine(
        answers, context_length=100, vocab_size=VOCAB, max_parallel=max_parallel, max_waiting=max_waiting
    )


def answer(*ids: int, delay_s: float = 0.0, prefill_s: float = 0.0) -> ScriptedAnswer:
    return ScriptedAnswer(tuple((id,) for id in ids), delay_s=delay_s, prefill_s=prefill_s)


ENDLESS = answer(*range(50), delay_s=LONG_S)
SLOW_PROMPT = answer(1, prefill_s=LONG_S)


def wait_for_start(generation: Generation) -> None:
    assert isinstance(generation.next_event(PATIENCE_S), Prefilled)


def test_answers_come_in_the_order_of_the_script_and_the_last_repeats() -> None:
    with scripted(answer(1), answer(2, 3)) as engine:
        assert [engine.submit(PROMPT).result(PATIENCE_S).ids for _ in range(4)] == [[1], [2, 3], [2, 3], [2, 3]]


def test_events_are_those_of_a_real_engine() -> None:
    with scripted(ScriptedAnswer(((1, 2), (), (3,)), stop_id=7)) as engine:
        *events, finished = list(engine.submit(PROMPT))
    assert events == [Prefilled(0, 8), Prefilled(8, 8), Token(1), Token(2), Token(3)]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.stop_id) == (FinishReason.STOP, 7)
    assert (finished.prompt_tokens, finished.generated_tokens, finished.reused_tokens) == (8, 3, 0)


def test_an_answer_may_say_that_it_was_cut() -> None:
    with scripted(ScriptedAnswer(((1,),), FinishReason.LENGTH, stop_id=7)) as engine:
        finished = engine.submit(PROMPT).result(PATIENCE_S).finished
    assert (finished.reason, finished.stop_id) == (FinishReason.LENGTH, None)


def test_a_stop_token_in_the_script_ends_the_answer_and_is_named() -> None:
    with scripted(answer(1, 9, 2)) as engine:
        completion = engine.submit(PROMPT, GenerateOptions(stop_ids=frozenset({9}))).result(PATIENCE_S)
    assert (completion.ids, completion.finished.reason, completion.finished.stop_id) == ([1], FinishReason.STOP, 9)


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3])
def test_no_more_than_max_tokens_come(max_tokens: int) -> None:
    with scripted(answer(1, 2, 3)) as engine:
        completion = engine.submit(PROMPT, GenerateOptions(max_tokens=max_tokens)).result(PATIENCE_S)
    assert completion.ids == [1, 2, 3][:max_tokens]
    assert completion.finished.reason is FinishReason.LENGTH


def test_the_context_bounds_the_answer() -> None:
    with scripted(answer(*[1] * 50)) as engine:
        completion = engine.submit([1] * 95).result(PATIENCE_S)
    assert len(completion.ids) == 4
    assert completion.finished.reason is FinishReason.LENGTH


def test_a_script_is_certain_of_its_tokens() -> None:
    with scripted(answer(5)) as engine:
        assert engine.submit(PROMPT, GenerateOptions(logprobs=0)).result(PATIENCE_S).tokens == (Token(5, 0.0),)
        best = (TokenScore(5, 0.0, 0.0),)
        assert engine.submit(PROMPT, GenerateOptions(logprobs=3)).result(PATIENCE_S).tokens == (Token(5, 0.0, best),)


def test_the_prompt_is_read_on_a_clock_and_progress_is_told() -> None:
    with scripted(answer(1, prefill_s=0.3)) as engine:
        events = list(engine.submit(list(range(50))))
    processed = [event.processed for event in events if isinstance(event, Prefilled)]
    assert (processed[0], processed[-1]) == (0, 50)
    assert len(processed) > 3
    assert processed == sorted(set(processed))
    assert isinstance(events[-1], Finished)
    assert 0.3 <= events[-1].prefill_s < PATIENCE_S


def test_every_piece_is_waited_for() -> None:
    with scripted(ScriptedAnswer(((1, 2, 3), (), (4,)), delay_s=0.05)) as engine:
        finished = engine.submit(PROMPT).result(PATIENCE_S).finished
    assert finished.decode_s >= 0.15
    assert finished.generated_tokens == 4


@pytest.mark.parametrize("script", [SLOW_PROMPT, ENDLESS], ids=["reading", "answering"])
def test_a_cancel_is_heard_within_a_step(script: ScriptedAnswer) -> None:
    with scripted(script) as engine:
        generation = engine.submit(PROMPT)
        wait_for_start(generation)
        started_s = time.monotonic()
        generation.cancel()
        finished = generation.result(PATIENCE_S).finished
    assert finished.reason is FinishReason.CANCELLED
    assert time.monotonic() - started_s < 30.0


def test_a_request_that_waits_can_be_cancelled() -> None:
    with scripted(SLOW_PROMPT, max_parallel=1) as engine:
        running = engine.submit(PROMPT)
        waiting = engine.submit(PROMPT)
        wait_for_start(running)
        waiting.cancel()
        assert waiting.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        assert not running.is_finished


def test_a_short_request_does_not_wait_for_a_slow_one_p29() -> None:
    with scripted(ENDLESS, answer(1, 2), max_parallel=2) as engine:
        slow = engine.submit(PROMPT)
        assert engine.submit(PROMPT).result(PATIENCE_S).ids == [1, 2]
        assert not slow.is_finished


def test_one_that_has_no_place_waits_for_one_to_end() -> None:
    with scripted(SLOW_PROMPT, answer(1), max_parallel=1) as engine:
        first, second = engine.submit(PROMPT), engine.submit(PROMPT)
        wait_for_start(first)
        assert second.next_event(0.1) is None
        first.cancel()
        assert second.result(PATIENCE_S).ids == [1]


def test_requests_of_one_session_run_one_after_another() -> None:
    with scripted(SLOW_PROMPT, answer(1), answer(2)) as engine:
        session = engine.new_session()
        first, second = engine.submit(PROMPT, session=session), engine.submit(PROMPT, session=session)
        assert engine.submit(PROMPT).result(PATIENCE_S).ids == [2]
        assert second.next_event(0.1) is None
        first.cancel()
        assert second.result(PATIENCE_S).ids == [1]


def test_a_full_queue_refuses_and_uses_up_no_answer() -> None:
    with scripted(SLOW_PROMPT, answer(1), answer(2), max_parallel=1, max_waiting=1) as engine:
        first = engine.submit(PROMPT)
        wait_for_start(first)
        second = engine.submit(PROMPT)
        with pytest.raises(EngineBusyError, match="1 requests are waiting"):
            engine.submit(PROMPT)
        first.cancel()
        assert second.result(PATIENCE_S).ids == [1]
        assert engine.submit(PROMPT).result(PATIENCE_S).ids == [2]


def test_what_cannot_run_is_refused_and_uses_up_no_answer() -> None:
    with scripted(answer(1), answer(2)) as engine, scripted(answer(1)) as other:
        for ids in ([], [VOCAB], [-1], [0.5]):
            with pytest.raises(UsageError):
                engine.submit(ids)  # type: ignore[arg-type]
        with pytest.raises(ContextOverflowError, match="context of 100"):
            engine.submit([1] * 100)
        with pytest.raises(UsageError, match="another engine"):
            engine.submit(PROMPT, session=other.new_session())
        assert engine.submit(PROMPT).result(PATIENCE_S).ids == [1]


def test_closing_cancels_what_runs_and_waits() -> None:
    engine = scripted(ENDLESS, max_parallel=1)
    generations = [engine.submit(PROMPT) for _ in range(3)]
    engine.close()
    assert {generation.result(0).finished.reason for generation in generations} == {FinishReason.CANCELLED}
    with pytest.raises(EngineClosedError):
        engine.submit(PROMPT)
    engine.close()


def test_draining_lets_all_end() -> None:
    engine = scripted(answer(1, 2, delay_s=0.05), max_parallel=1)
    generations = [engine.submit(PROMPT) for _ in range(3)]
    engine.close(drain=True)
    assert [generation.result(0).ids for generation in generations] == [[1, 2]] * 3


def test_a_close_hurries_up_a_drain() -> None:
    engine = scripted(SLOW_PROMPT)
    generation = engine.submit(PROMPT)
    drain = threading.Thread(target=lambda: engine.close(drain=True))
    drain.start()
    wait_for_start(generation)
    engine.close()
    drain.join(PATIENCE_S)
    assert generation.result(0).finished.reason is FinishReason.CANCELLED


def test_a_dropped_engine_ends_its_thread() -> None:
    generation = scripted(SLOW_PROMPT).submit(PROMPT)
    assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED


def test_a_prompt_that_was_answered_before_is_known_but_for_its_last_token_p13() -> None:
    with scripted(answer(7, 8)) as engine:
        reused = [engine.submit(ids).result(PATIENCE_S).finished.reused_tokens for ids in (PROMPT, PROMPT)]
        longer = [*PROMPT, 7, 8, 1, 2]
        reused += [engine.submit(ids).result(PATIENCE_S).finished.reused_tokens for ids in (longer, [3, 1, 9], [9])]
    assert reused == [0, 7, 10, 2, 0]


def test_what_was_seen_before_and_what_followed_it_is_told() -> None:
    with scripted(answer(7, 8)) as engine:
        prompts = (PROMPT, PROMPT, [*PROMPT[:3], 60], [*PROMPT, 7, 8, 1], [60])
        ends = [engine.submit(ids).result(PATIENCE_S).finished for ids in prompts]
    assert [end.common_tokens for end in ends] == [0, 8, 3, 10, 0]
    assert [end.seen_next for end in ends] == [(), (7, 8), (1, 5, 9, 2, 6, 7, 8), (), tuple(PROMPT)]


def test_a_miss_has_a_reason() -> None:
    with scripted(answer(7)) as engine:
        ends = [engine.submit(ids).result(PATIENCE_S).finished for ids in (PROMPT, PROMPT, [60, 61])]
    assert [end.reuse for end in ends] == [Reuse.NONE, Reuse.MEMORY, Reuse.NONE]
    assert [end.miss_reason for end in ends] == [MissReason.EMPTY, None, MissReason.UNKNOWN_PREFIX]


def test_a_running_requests_prefix_is_known_too() -> None:
    with scripted(ENDLESS, answer(1)) as engine:
        slow = engine.submit(PROMPT)
        while slow.next_event(PATIENCE_S) != Prefilled(8, 8):
            pass
        assert engine.submit([*PROMPT, 5]).result(PATIENCE_S).finished.reused_tokens == 8


def test_what_was_read_before_a_cancel_is_known_p18() -> None:
    prompt = [1] * 90
    with scripted(answer(1, prefill_s=2.0), answer(1)) as engine:
        generation = engine.submit(prompt)
        while (event := generation.next_event(PATIENCE_S)) == Prefilled(0, 90):
            pass
        assert isinstance(event, Prefilled)
        generation.cancel()
        generation.result(PATIENCE_S)
        assert engine.submit(prompt).result(PATIENCE_S).finished.reused_tokens >= event.processed > 0


def test_what_was_asked_can_be_looked_at() -> None:
    options = GenerateOptions(max_tokens=5)
    with scripted(answer(7, 8), SLOW_PROMPT, max_parallel=1) as engine:
        assert engine.last_received is None
        engine.submit(PROMPT, options).result(PATIENCE_S)
        last = engine.last_received
        assert last is not None
        assert (last.number, last.ids, last.options) == (1, tuple(PROMPT), options)
        assert (last.reused_tokens, last.processed_tokens, last.generated_ids) == (0, 8, (7, 8))
        assert last.finish is FinishReason.STOP
        wait_for_start(engine.submit([*PROMPT, 7, 8]))
        engine.submit([5])
        assert [(one.number, one.reused_tokens, one.finish) for one in engine.received[1:]] == [
            (2, 9, None),
            (3, None, None),
        ]


def test_the_caller_may_change_the_ids_afterwards() -> None:
    ids = np.array(PROMPT, np.int32)
    with scripted(answer(1)) as engine:
        generation = engine.submit(ids)
        ids[:] = 0
        generation.result(PATIENCE_S)
        assert engine.received[0].ids == tuple(PROMPT)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=12))
def test_what_was_seen_is_the_longest_common_prefix_of_all(sequences: list[list[int]]) -> None:
    seen = SeenPrefixes()
    for number, ids in enumerate(sequences):
        expected = max((shared(ids, earlier) for earlier in sequences[:number]), default=0)
        assert seen.common_length(np.array(ids, np.int32)) == expected
        seen.remember(np.array(ids, np.int32))


def shared(left: list[int], right: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def test_the_oldest_is_forgotten_first() -> None:
    seen = SeenPrefixes(max_sequences=2, max_tokens=5)
    for ids in ([1, 1], [2, 2], [3, 3]):
        seen.remember(np.array(ids, np.int32))
    assert [seen.common_length(np.array([first], np.int32)) for first in (1, 2, 3)] == [0, 1, 1]


def test_a_script_that_cannot_be_played_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one answer"):
        scripted()
    with pytest.raises(UsageError, match="answer 2: expected token ids from 0 to 63, got 64"):
        scripted(answer(1), answer(64))
    with pytest.raises(UsageError, match="stop or length"):
        ScriptedAnswer((), FinishReason.CANCELLED)
    for time_s in (-1.0, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="delay_s must be a number"):
            answer(1, delay_s=time_s)
    with pytest.raises(UsageError, match="at least 1 parallel"):
        scripted(answer(1), max_parallel=0)
