"""Sequences that grow, step back, are frozen, taken up again and dropped, while anything may go wrong on the way: every
answer is that of one process, or one clear error after which the next answer is right again."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.parts import SYNTHETIC, parts, tokens, whole
from fakes.cluster_routes import FakeRoutes, Mishap, Mishaps
from whitedwarf.cluster.pipeline import ClusterModel
from whitedwarf.cluster.work import Work
from whitedwarf.errors import ClusterError
from whitedwarf.model.base import LogitRows, Logits, Model, Snapshot, Span, State

NUM_STATES = 3
MOST_KEPT = 4
MISHAPS: tuple[Mishap, ...] = ("die", "die after", "lose", "lose", "swap", "delay")


@dataclass
class Player:
    """One model, and the states and snapshots of a game."""

    model: Model
    states: list[State] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = [self.model.new_state() for _ in range(NUM_STATES)]

    def run(self, moves: Sequence[tuple[int, int, LogitRows]], seed: int) -> list[Logits]:
        spans = [Span(self.states[at], tokens(count, seed + at), wanted) for at, count, wanted in moves]
        return self.model.forward(spans)

    def step_back(self, at: int, num_tokens: int) -> None:
        self.states[at].rollback(min(num_tokens, self.states[at].rollback_room))

    def freeze(self, at: int) -> None:
        self.snapshots = [*self.snapshots, self.states[at].snapshot()][-MOST_KEPT:]

    def take_up(self, at: int, which: int) -> None:
        if self.snapshots:
            self.states[at].restore(self.snapshots[which % len(self.snapshots)])

    def renew(self, at: int) -> None:
        self.states[at] = self.model.new_state()


places = st.integers(0, NUM_STATES - 1)
wanted = st.sampled_from(["none", "none", "last", "all"])
runs = st.lists(st.tuples(places, st.integers(1, 40), wanted), min_size=1, max_size=3, unique_by=lambda move: move[0])
moves = st.one_of(
    st.tuples(st.just("run"), runs),
    st.tuples(st.just("run"), runs),
    st.tuples(st.just("run"), runs),
    st.tuples(st.just("step_back"), places, st.integers(0, 16)),
    st.tuples(st.just("freeze"), places),
    st.tuples(st.just("take_up"), places, st.integers(0, 3)),
    st.tuples(st.just("renew"), places),
    st.tuples(st.just("outage")),
)
games = st.lists(moves, min_size=5, max_size=25)


def mishaps(seed: int, share: float, routes: FakeRoutes, extra: tuple[Mishap, ...]) -> Mishaps:
    def what_happens(stage: int, work: Work) -> Mishap | None:
        chance = random.Random(f"{seed} {len(routes.made)} {stage} {work.number}")
        return chance.choice((*MISHAPS, *extra)) if chance.random() < share else None

    return what_happens


def play(game: Sequence[tuple], routes: FakeRoutes, model: ClusterModel) -> Iterator[str]:
    """Every move in the cluster and in one process -> how each ended."""
    ours, theirs = Player(model), Player(whole(SYNTHETIC))
    for number, (kind, *given_with) in enumerate(game):
        match kind:
            case "outage":
                if routes.made:
                    routes.route.break_off()
            case "run":
                (chosen,) = given_with
                positions = [state.position for state in theirs.states]
                expected = theirs.run(chosen, number)
                try:
                    found = ours.run(chosen, number)
                except ClusterError:
                    for at, _, _ in chosen:
                        assert ours.states[at].position == positions[at]
                        ours.renew(at)
                        theirs.renew(at)
                    yield "error"
                    continue
                assert [rows.tobytes() for rows in found] == [rows.tobytes() for rows in expected]
                yield "answer"
            case _:
                for player in (ours, theirs):
                    getattr(player, kind)(*given_with)
        assert [state.position for state in ours.states] == [state.position for state in theirs.states]
        for left, right in zip(ours.states, theirs.states, strict=True):
            assert left.rollback_room == right.rollback_room


def played(game: Sequence[tuple], seed: int, share: float, extra: tuple[Mishap, ...] = ()) -> list[str]:
    first, *others = parts(SYNTHETIC, "packed", 2, 4)
    routes = FakeRoutes(others)
    routes.mishaps = mishaps(seed, share, routes, extra)
    try:
        model = ClusterModel.over(first, routes, replay_tokens=50)
        ends = list(play(game, routes, model))
        routes.mishaps = lambda stage, work: None
        state, expected = model.new_state(), whole(SYNTHETIC)
        found = model.forward([Span(state, tokens(30))])[0]
        assert found.tobytes() == expected.forward([Span(expected.new_state(), tokens(30))])[0].tobytes()
        del state
        assert all(part.facts().num_snapshots <= MOST_KEPT for part in routes.route.parts)
        return ends
    finally:
        routes.close()


calm = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


@calm
@given(game=games)
def test_when_all_goes_well_every_answer_is_that_of_one_process(game):
    assert "error" not in played(game, 0, 0.0)


@settings(calm, max_examples=20)
@given(game=games, seed=st.integers(0, 10**6))
def test_when_now_and_then_something_is_lost_every_answer_is_that_of_one_process(game, seed):
    played(game, seed, 0.08)


@calm
@given(game=games, seed=st.integers(0, 10**6))
def test_when_stages_fail_too_there_is_an_error_or_the_answer(game, seed):
    played(game, seed, 0.15, ("fail", "fail", "fail"))


def test_a_game_with_everything_in_it():
    rng = np.random.default_rng(4)
    game = []
    for _ in range(60):
        at = int(rng.integers(NUM_STATES))
        game.append(("run", [(at, int(rng.integers(1, 60)), "none"), ((at + 1) % NUM_STATES, 1, "last")]))
        game.append([("freeze", at), ("step_back", at, 3), ("take_up", at, 1), ("outage",)][int(rng.integers(4))])
    assert played(game, 11, 0.03).count("answer") > 30
