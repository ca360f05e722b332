"""1 to 8 companions of staggered lengths, some of which leave early: every answer has the bits it has alone (P16)."""

import itertools
import random
from pathlib import Path

import pytest

from engine.bits import LENGTHS, ROOMY, cold, extended, nano, on_disk, options, prompt
from fakes.gates import PATIENCE_S
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Finished, FinishReason, Reuse, Token

pytestmark = pytest.mark.slow

NUM_TOKENS = 12
STAGGERED = (extended(127, 17), extended(100, 300), prompt(700, 3), prompt(1), extended(129, 2), prompt(2, 5))
"""Prompts of the companions; the first ones begin like prompts of LENGTHS."""
ANSWERS = (3, 12, 7, 1, 12, 5)  # how long theirs are
PAIRS = [(length, 1 + (number + 4 * half) % 8) for half in (0, 1) for number, length in enumerate(LENGTHS)]


def test_every_number_of_companions_is_tried() -> None:
    assert {number for _, number in PAIRS} == set(range(1, 9))


def run_beside(engine: Engine, length: int, number: int) -> Finished:
    """Ask for an answer and, before, during and after its prompt, for those of the companions; compare them all."""
    chance = random.Random(f"{length} {number}")
    companions = list(itertools.islice(zip(itertools.cycle(STAGGERED), itertools.cycle(ANSWERS), strict=False), number))
    num_first = chance.randint(0, number)
    running = [engine.submit(ids, options(count)) for ids, count in companions[:num_first]]
    generation = engine.submit(extended(length, 1), options(NUM_TOKENS))
    for ids, count in companions[num_first:]:
        generation.next_event(PATIENCE_S)
        running.append(engine.submit(ids, options(count)))
    leaving = set(chance.sample(range(number), number // 2))
    for index in leaving:
        _leave(running[index], after=chance.randint(0, 3))
    answer = generation.result(PATIENCE_S)
    assert answer.tokens == cold(extended(length, 1), NUM_TOKENS)
    for index, (ids, count) in enumerate(companions):
        completion = running[index].result(PATIENCE_S)
        assert completion.tokens == cold(ids, 12)[: len(completion.tokens)]
        assert len(completion.tokens) == count or index in leaving
        assert completion.finished.reason in (
            {FinishReason.LENGTH, FinishReason.CANCELLED} if index in leaving else {FinishReason.LENGTH}
        )
    return answer.finished


def _leave(generation: Generation, after: int) -> None:
    """Cancel after so many events, or at the end."""
    for _ in range(after):
        if isinstance(generation.next_event(PATIENCE_S), Finished):
            break
    generation.cancel()


@pytest.mark.parametrize(("length", "number"), PAIRS)
def test_cold_and_from_memory(length: int, number: int) -> None:
    with Engine(nano().transformer, max_parallel=9, prefix_budget_bytes=ROOMY) as engine:
        run_beside(engine, length, number)
        again = run_beside(engine, length, number)
    assert again.reused_tokens == length  # all but the last of its prompt


@pytest.mark.parametrize(("length", "number"), PAIRS[3::4])
def test_without_any_memory_and_with_fewer_places_than_requests(length: int, number: int) -> None:
    with Engine(nano().transformer, max_parallel=3, max_chunk_tokens=100) as engine:
        assert run_beside(engine, length, number).reused_tokens == 0


@pytest.mark.parametrize(("length", "number"), PAIRS[::3])
def test_after_a_restart(length: int, number: int, tmp_path: Path) -> None:
    with on_disk(tmp_path) as engine:
        engine.submit(prompt(length), options(1)).result(PATIENCE_S)
    with on_disk(tmp_path) as engine:
        finished = run_beside(engine, length, number)
    assert (finished.reuse, finished.reused_tokens) == (Reuse.DISK, length)


def test_a_sequence_that_is_cancelled_in_its_answer_is_gone_on_with_by_another() -> None:
    ids = extended(129, 3)
    with Engine(nano().transformer, prefix_budget_bytes=ROOMY) as engine:
        generation = engine.submit(ids, options(500))
        for event in generation:
            if isinstance(event, Token):
                generation.cancel()
        answer = tuple(token.id for token in generation.result(PATIENCE_S).tokens)
        longer = (*ids, *answer, *prompt(20, 6))
        completion = engine.submit(longer, options(5)).result(PATIENCE_S)
    assert completion.finished.reuse is Reuse.LIVE
    assert completion.tokens == cold(longer)
