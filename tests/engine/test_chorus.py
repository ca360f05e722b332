"""Several generations read as one."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.engine.chorus import Chorus, Voiced
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished, FinishReason, Token

END = Finished(FinishReason.STOP, 1, 1)


def voiced_of(chorus: Chorus) -> list[Voiced]:
    return list(iter(chorus.next_event, None))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.randoms())
def test_every_event_comes_once_and_those_of_one_in_order(lengths: list[int], random: Random) -> None:
    generations = [Generation() for _ in lengths]
    left: list[list[Event]] = [[*map(Token, range(length)), END] for length in lengths]
    played = [list(events) for events in left]
    chorus, heard = Chorus(generations), list[Voiced]()
    while any(left):
        voice = random.choice([voice for voice, events in enumerate(left) if events])
        generations[voice].put(left[voice].pop(0))
        if random.random() < 0.5:
            heard += voiced_of(chorus)
    heard += voiced_of(chorus)
    assert [[one.event for one in heard if one.voice == voice] for voice in range(len(lengths))] == played
    assert chorus.next_event() is None


def test_each_has_its_turn_while_several_have_much_to_say() -> None:
    generations = [Generation() for _ in range(3)]
    for generation in generations:
        for number in range(4):
            generation.put(Token(number))
    assert [one.voice for one in voiced_of(Chorus(generations))] == [0, 1, 2] * 4


def test_a_reader_is_woken_by_each_and_cancels_all() -> None:
    generations, woken = [Generation(), Generation()], list[int]()
    chorus = Chorus(generations)
    chorus.notify(lambda: woken.append(1))
    for generation in generations:
        generation.put(END)
    chorus.cancel()
    assert (len(woken), [generation.is_cancelled for generation in generations]) == (2, [True, True])
