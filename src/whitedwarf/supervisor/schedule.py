"""What happens next: who is admitted, what is started, what is stopped for it. Pure; the desk does what it says.

Without a budget one managed model is up at a time; models of one group, and pinned ones, may be up beside others. With
a budget those that fit together stay together, and the idle one that was used longest ago goes first. Requests are
served in the order of their arrival, except that a model which is up takes all of its own (AABBCC) until somebody
else has waited for `age_limit_s`. Does not know processes, nor requests beyond their tickets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from whitedwarf.supervisor.config import SwapPolicy


class Stage(Enum):
    """Of a process."""

    LOADING = "loading"
    LOADED = "loaded"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a model asks of the machine."""

    key: str
    memory_bytes: int = 0
    is_pinned: bool = False
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A model that has a process. `since_s`: loaded since; `used_s`: the end of its last request.

    `last_ticket`: it closes after the request of this number; later ones wait for its next start. None: it stays open.
    """

    needs: Needs
    stage: Stage
    in_flight: int = 0
    since_s: float = 0.0
    used_s: float = 0.0
    last_ticket: int | None = None

    @property
    def key(self) -> str:
        """Of the model."""
        return self.needs.key

    def takes(self, ticket: "Ticket") -> bool:
        """Whether this request is for this process, now or when it is loaded."""
        is_open = self.last_ticket is None or ticket.number <= self.last_ticket
        return ticket.key == self.key and self.stage is not Stage.STOPPING and is_open


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request that waits. Numbers grow in the order of arrival. A polite one has nothing stopped and does not wait
    for a place (a model that is preloaded)."""

    number: int
    key: str
    arrived_s: float
    is_polite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the machine is shared; see SupervisorConfig."""

    budget_bytes: int | None = None
    swap_policy: SwapPolicy = SwapPolicy.WAIT
    max_wait_s: float = 600.0
    age_limit_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that counts. `tickets` in the order of their numbers; `models` has the key of each."""

    models: Mapping[str, Needs]
    places: tuple[Place, ...]
    tickets: tuple[Ticket, ...]
    rules: Rules
    now_s: float


@dataclass(frozen=True, slots=True)
class Admit:
    """This request goes to its model, which is loaded."""

    number: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """This request has waited too long for a place, or is polite and there is none."""

    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """There is a place for this model."""

    key: str


@dataclass(frozen=True, slots=True)
class Stop:
    """This model's process ends; its place counts as taken until it is gone."""

    key: str


Step = Admit | Refuse | Start | Stop


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a model gets its place: those that have to go, and whether others on their way out are in it."""

    victims: tuple[Place, ...]
    waits_for_end: bool

    @property
    def is_ready(self) -> bool:
        return not self.victims and not self.waits_for_end


def next_step(situation: Situation) -> Step | None:
    """The first thing to do, or None: then only time or another event changes anything. Do it, and ask again."""
    return _admission(situation) or _refusal(situation) or _closing(situation) or _arrival(situation)


def _admission(situation: Situation) -> Step | None:
    loaded = [place for place in situation.places if place.stage is Stage.LOADED]
    for ticket in situation.tickets:
        for place in loaded:
            if place.takes(ticket) and not _is_held(situation, ticket, place):
                return Admit(ticket.number)
    return None


def _is_held(situation: Situation, ticket: Ticket, place: Place) -> bool:
    """Whether somebody older has waited so long for this place that no more requests enter it before."""
    for first in _firsts(situation):
        if first.number > ticket.number or not _is_aged(situation, first):
            return False
        if place in _plan(situation, first).victims:
            return True
    return False


def _refusal(situation: Situation) -> Step | None:
    coming = [place for place in situation.places if place.stage is Stage.LOADING]
    for ticket in situation.tickets:
        has_waited = situation.now_s - ticket.arrived_s >= situation.rules.max_wait_s
        if has_waited and not any(place.takes(ticket) for place in coming):
            return Refuse(ticket.number)
    return None


def _closing(situation: Situation) -> Step | None:
    for place in situation.places:
        is_closing = place.last_ticket is not None and place.stage is not Stage.STOPPING
        if is_closing and place.in_flight == 0 and not _is_awaited(situation, place):
            return Stop(place.key)
    return None


def _arrival(situation: Situation) -> Step | None:
    is_first = True
    for ticket in _firsts(situation):
        plan = _plan(situation, ticket)
        if plan.is_ready:
            return Start(ticket.key)
        if ticket.is_polite:
            return Refuse(ticket.number)
        can_stop = all(_can_stop(situation, place, ticket) for place in plan.victims)
        if is_first and plan.victims and can_stop:
            return Stop(plan.victims[0].key)
        # Whoever is next may go ahead where nothing has to be stopped for it, but not into a place that is being made.
        if can_stop or _is_aged(situation, ticket):
            return None
        is_first = False
    return None


def _firsts(situation: Situation) -> Iterator[Ticket]:
    """The oldest request of each model that has no process."""
    seen = {place.key for place in situation.places}
    for ticket in situation.tickets:
        if ticket.key not in seen:
            seen.add(ticket.key)
            yield ticket


def _is_aged(situation: Situation, ticket: Ticket) -> bool:
    return situation.now_s - ticket.arrived_s >= situation.rules.age_limit_s


def _is_awaited(situation: Situation, place: Place) -> bool:
    return any(place.takes(ticket) for ticket in situation.tickets)


def _can_stop(situation: Situation, place: Place, ticket: Ticket) -> bool:
    if place.stage is Stage.LOADING:
        return not _is_awaited(situation, place)
    if place.in_flight == 0:
        return True
    # Only what was answering when the request came: what waited longer than it would never get its answer.
    return situation.rules.swap_policy is SwapPolicy.INTERRUPT and place.since_s <= ticket.arrived_s


def _plan(situation: Situation, ticket: Ticket) -> _Plan:
    needs = situation.models[ticket.key]
    if situation.rules.budget_bytes is None:
        return _plan_alone(situation, needs)
    return _plan_within(situation, needs, situation.rules.budget_bytes)


def _plan_alone(situation: Situation, needs: Needs) -> _Plan:
    rivals = [place for place in situation.places if not _may_be_together(place.needs, needs)]
    staying = [place for place in rivals if place.stage is not Stage.STOPPING]
    return _Plan(tuple(_least_worth_first(situation, staying)), len(staying) < len(rivals))


def _may_be_together(one: Needs, other: Needs) -> bool:
    return one.is_pinned or other.is_pinned or (one.group is not None and one.group == other.group)


def _plan_within(situation: Situation, needs: Needs, budget_bytes: int) -> _Plan:
    """A model that is too big runs when all that may be stopped are gone."""
    staying = [place for place in situation.places if place.stage is not Stage.STOPPING]
    ending = [place for place in situation.places if place.stage is Stage.STOPPING]
    free = budget_bytes - needs.memory_bytes - sum(place.needs.memory_bytes for place in staying)
    victims: list[Place] = []
    for place in _least_worth_first(situation, [place for place in staying if not place.needs.is_pinned]):
        if free >= 0:
            break
        victims.append(place)
        free += place.needs.memory_bytes
    waits_for_end = bool(ending) and free < sum(place.needs.memory_bytes for place in ending)
    return _Plan(tuple(victims), waits_for_end)


def _least_worth_first(situation: Situation, places: list[Place]) -> list[Place]:
    """What nobody uses or waits for, of it what is not even loaded, of it what was used longest ago."""

    def worth(place: Place) -> tuple[bool, bool, float]:
        is_wanted = place.in_flight > 0 or _is_awaited(situation, place)
        return (is_wanted, place.stage is Stage.LOADED, place.used_s)

    return sorted(places, key=worth)
