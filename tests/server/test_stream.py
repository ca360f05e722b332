"""An answer on the event loop: it takes turns with everybody else, however fast the engine is."""

import asyncio

from whitedwarf.engine.event_feed import MAX_AT_ONCE, EventFeed
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished, FinishReason, Token

NUM_TOKENS = 20 * MAX_AT_ONCE


def test_an_answer_that_is_all_there_lets_others_have_their_turns() -> None:
    batches, turns = asyncio.run(_read_beside_another())
    assert [event for batch in batches for event in batch][-1] == _FINISHED
    assert sum(map(len, batches)) == NUM_TOKENS + 1
    assert max(map(len, batches)) <= MAX_AT_ONCE
    assert turns >= len(batches)


def test_events_that_were_left_are_not_waited_for() -> None:
    async def read() -> list[list[Event]]:
        feed = EventFeed(_generation(MAX_AT_ONCE + 1))
        return [await asyncio.wait_for(feed.next(), 60) for _ in range(2)]

    assert [len(batch) for batch in asyncio.run(read())] == [MAX_AT_ONCE, 2]


async def _read_beside_another() -> tuple[list[list[Event]], int]:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    feed, batches = EventFeed(_generation(NUM_TOKENS)), list[list[Event]]()
    while not batches or batches[-1][-1] != _FINISHED:
        batches.append(await feed.next())
    other.cancel()
    return batches, turns


_FINISHED = Finished(FinishReason.STOP, prompt_tokens=1, generated_tokens=NUM_TOKENS)


def _generation(num_tokens: int) -> Generation:
    generation = Generation()
    for token in range(num_tokens):
        generation.put(Token(token))
    generation.put(_FINISHED)
    return generation
