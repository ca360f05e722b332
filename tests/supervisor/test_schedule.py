"""Whose turn it is: cases that people would name, and properties of every situation."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.supervisor.config import SwapPolicy
from whitedwarf.supervisor.schedule import (
    Admit,
    Needs,
    Place,
    Refuse,
    Rules,
    Situation,
    Stage,
    Start,
    Step,
    Stop,
    Ticket,
    next_step,
)

NOW_S = 1000.0


def place(key: str, stage: Stage = Stage.LOADED, **more: Any) -> Place:
    needs = Needs(key=key, **{name: more.pop(name) for name in ("memory_bytes", "is_pinned", "group") if name in more})
    return Place(needs=needs, stage=stage, **more)


def tickets(*keys: str, aged: int = 0) -> tuple[Ticket, ...]:
    """The first `aged` of them have waited long."""
    return tuple(Ticket(number, key, NOW_S - (60 if number <= aged else 1)) for number, key in enumerate(keys, start=1))


def step(
    places: list[Place], waiting: tuple[Ticket, ...], models: dict[str, dict[str, Any]] | None = None, **rules: Any
) -> Step | None:
    keys = {ticket.key for ticket in waiting}
    known = {key: Needs(key=key, **(models or {}).get(key, {})) for key in keys}
    return next_step(Situation(models=known, places=tuple(places), tickets=waiting, rules=Rules(**rules), now_s=NOW_S))


def test_nothing_waits_and_nothing_happens() -> None:
    assert step([place("a")], ()) is None


def test_the_oldest_request_gets_the_empty_place() -> None:
    assert step([], tickets("b", "a", "b")) == Start("b")


def test_a_loaded_model_takes_its_own_before_others_get_their_turn() -> None:
    assert step([place("a")], tickets("b", "a")) == Admit(2)


def test_a_loaded_model_takes_no_more_once_another_has_waited_long() -> None:
    assert step([place("a", in_flight=1)], tickets("b", "a", aged=1)) is None
    assert step([place("a")], tickets("b", "a", aged=1)) == Stop("a")
    assert step([place("a")], tickets("a", "b", aged=2)) == Admit(1)


def test_a_model_that_is_on_its_way_out_is_waited_for() -> None:
    assert step([place("a", Stage.STOPPING)], tickets("a")) is None
    assert step([place("a", Stage.STOPPING)], tickets("b")) is None


def test_a_busy_model_is_interrupted_only_by_policy() -> None:
    busy = place("a", in_flight=2, since_s=NOW_S - 100)
    assert step([busy], tickets("b")) is None
    assert step([busy], tickets("b"), swap_policy=SwapPolicy.INTERRUPT) == Stop("a")


def test_what_waited_longer_than_the_interrupting_request_is_not_interrupted() -> None:
    busy = place("a", in_flight=2, since_s=NOW_S)
    assert step([busy], tickets("b"), swap_policy=SwapPolicy.INTERRUPT) is None


def test_a_load_is_given_up_only_when_nobody_waits_for_it() -> None:
    loading = place("a", Stage.LOADING)
    assert step([loading], tickets("b")) == Stop("a")
    assert step([loading], tickets("a", "b")) is None
    assert step([loading], ()) is None


def test_whoever_waits_too_long_for_a_place_is_refused_but_not_during_the_load() -> None:
    assert step([place("a", in_flight=1)], tickets("b", aged=1), max_wait_s=60) == Refuse(1)
    assert step([place("a", Stage.LOADING)], tickets("a", aged=1), max_wait_s=60) is None


def test_a_polite_request_has_nothing_stopped() -> None:
    polite = (Ticket(1, "b", NOW_S, is_polite=True),)
    assert step([place("a")], polite) == Refuse(1)
    assert step([], polite) == Start("b")


def test_a_closing_model_takes_those_who_came_before_and_stops_after_them() -> None:
    waiting = tickets("a", "a")
    assert step([place("a", last_ticket=1)], waiting) == Admit(1)
    assert step([place("a", last_ticket=1, in_flight=1)], waiting[1:]) is None
    assert step([place("a", last_ticket=1)], waiting[1:]) == Stop("a")
    assert step([place("a", Stage.LOADING, last_ticket=1)], waiting) is None
    assert step([place("a", Stage.LOADING, last_ticket=0)], waiting) == Stop("a")


def test_within_a_budget_the_idle_model_unused_longest_goes_first_and_only_if_it_helps() -> None:
    idle = [place("a", used_s=5, memory_bytes=4), place("b", used_s=2, memory_bytes=4)]
    sizes = {"c": {"memory_bytes": 4}, "d": {"memory_bytes": 2}}
    assert step(idle, tickets("c"), sizes, budget_bytes=10) == Stop("b")
    assert step(idle, tickets("d"), sizes, budget_bytes=10) == Start("d")
    busy = [replace(idle[0], in_flight=1), idle[1]]
    big = {"c": {"memory_bytes": 8}}
    assert step(busy, tickets("c"), big, budget_bytes=10) is None  # "b" alone would not make room, so it stays


def test_within_a_budget_memory_is_free_only_when_the_process_is_gone() -> None:
    ending = [place("a", Stage.STOPPING, memory_bytes=8)]
    assert step(ending, tickets("c"), {"c": {"memory_bytes": 4}}, budget_bytes=10) is None
    assert step(ending, tickets("c"), {"c": {"memory_bytes": 2}}, budget_bytes=10) == Start("c")


def test_a_small_model_may_go_ahead_of_one_that_is_blocked_unless_that_has_waited_long() -> None:
    busy = [place("a", in_flight=1, memory_bytes=6)]
    sizes = {"big": {"memory_bytes": 9}, "small": {"memory_bytes": 2}}
    assert step(busy, tickets("big", "small"), sizes, budget_bytes=10) == Start("small")
    assert step(busy, tickets("big", "small", aged=1), sizes, budget_bytes=10) is None


def test_nobody_slips_into_a_place_that_is_being_made() -> None:
    ending = [place("a", Stage.STOPPING, memory_bytes=6)]
    sizes = {"big": {"memory_bytes": 9}, "small": {"memory_bytes": 2}}
    assert step(ending, tickets("big", "small"), sizes, budget_bytes=10) is None


def test_pinned_models_and_groups_may_be_beside_others() -> None:
    assert step([place("a", is_pinned=True)], tickets("b")) == Start("b")
    assert step([place("a", group="g")], tickets("b"), {"b": {"group": "g"}}) == Start("b")
    assert step([place("a", group="g")], tickets("b"), {"b": {"group": "h"}}) == Stop("a")
    pinned = [place("a", is_pinned=True, memory_bytes=6)]
    assert step(pinned, tickets("b"), {"b": {"memory_bytes": 6}}, budget_bytes=10) == Start("b")  # for ever otherwise


KEYS = st.sampled_from("abcdef")
NEEDS = st.fixed_dictionaries(
    {
        key: st.builds(
            Needs,
            key=st.just(key),
            memory_bytes=st.integers(0, 12),
            is_pinned=st.booleans(),
            group=st.sampled_from([None, "g", "h"]),
        )
        for key in "abcdef"
    }
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    models = draw(NEEDS)
    places = [
        Place(
            needs=models[key],
            stage=stage,
            in_flight=draw(st.integers(0, 2)) if stage is not Stage.LOADING else 0,
            since_s=NOW_S - draw(st.integers(0, 90)),
            used_s=NOW_S - draw(st.integers(0, 90)),
            last_ticket=draw(st.sampled_from([None, None, 0, 3])),
        )
        for key in draw(st.sets(KEYS, max_size=4))
        for stage in [draw(st.sampled_from(Stage))]
    ]
    ages = sorted(draw(st.lists(st.integers(0, 120), max_size=8)), reverse=True)
    waiting = [Ticket(number, draw(KEYS), NOW_S - age, draw(st.booleans())) for number, age in enumerate(ages, start=1)]
    rules = Rules(
        budget_bytes=draw(st.sampled_from([None, 8, 12])), swap_policy=draw(st.sampled_from(SwapPolicy)), max_wait_s=100
    )
    return Situation(models=models, places=tuple(places), tickets=tuple(waiting), rules=rules, now_s=NOW_S)


@given(situations())
def test_every_step_is_possible_and_changes_something(situation: Situation) -> None:
    places = {one.key: one for one in situation.places}
    numbers = {ticket.number: ticket for ticket in situation.tickets}
    match next_step(situation):
        case Admit(number):
            assert places[numbers[number].key].stage is Stage.LOADED
            assert places[numbers[number].key].takes(numbers[number])
        case Refuse(number):
            assert numbers[number].is_polite or NOW_S - numbers[number].arrived_s >= 100
        case Start(key):
            assert key not in places
        case Stop(key):
            assert places[key].stage is not Stage.STOPPING
            is_interrupted = situation.rules.swap_policy is SwapPolicy.INTERRUPT
            assert places[key].in_flight == 0 or is_interrupted


@given(situations())
def test_what_is_started_has_room_whatever_stands_beside_it(situation: Situation) -> None:
    found = next_step(situation)
    if not isinstance(found, Start):
        return
    new, budget = situation.models[found.key], situation.rules.budget_bytes
    beside = [one.needs for one in situation.places]
    if budget is None:
        assert all(one.is_pinned or new.is_pinned or (one.group and one.group == new.group) for one in beside)
    else:
        total = new.memory_bytes + sum(one.memory_bytes for one in beside)
        assert total <= budget or all(one.is_pinned for one in beside)


@given(situations())
def test_a_pinned_model_is_stopped_only_to_close(situation: Situation) -> None:
    found = next_step(situation)
    if isinstance(found, Stop):
        stopped = next(one for one in situation.places if one.key == found.key)
        assert not stopped.needs.is_pinned or stopped.last_ticket is not None


@given(situations())
def test_steps_come_to_an_end(situation: Situation) -> None:
    """Doing what it says, with nothing else happening, leads to rest."""
    for _ in range(100):
        found = next_step(situation)
        if found is None:
            return
        situation = after(situation, found)
    raise AssertionError("it goes on for ever")


@given(situations())
def test_everybody_is_served_or_refused_in_the_end(situation: Situation) -> None:
    """Where loads finish, processes end and requests are answered, nobody waits for ever."""
    for _ in range(200):
        while (found := next_step(situation)) is not None:
            situation = after(situation, found)
        if not situation.tickets:
            return
        going_on = tuple(
            replace(one, stage=Stage.LOADED, in_flight=0) for one in situation.places if one.stage is not Stage.STOPPING
        )
        situation = replace(situation, places=going_on)
    raise AssertionError(f"they wait for ever: {situation}")


def after(situation: Situation, found: Step) -> Situation:
    places, waiting = list(situation.places), list(situation.tickets)
    match found:
        case Admit(number):
            key = next(ticket.key for ticket in waiting if ticket.number == number)
            places = [replace(one, in_flight=one.in_flight + 1) if one.key == key else one for one in places]
            waiting = [ticket for ticket in waiting if ticket.number != number]
        case Refuse(number):
            waiting = [ticket for ticket in waiting if ticket.number != number]
        case Start(key):
            places.append(Place(needs=situation.models[key], stage=Stage.LOADING, since_s=NOW_S, used_s=NOW_S))
        case Stop(key):
            places = [replace(one, stage=Stage.STOPPING) if one.key == key else one for one in places]
    return replace(situation, places=tuple(places), tickets=tuple(waiting))
