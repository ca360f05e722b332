"""The scheduler's promises, held against any order of arrivals, cancels and batches."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from whitedwarf.engine.scheduler import (
    Candidate,
    Limits,
    Phase,
    Share,
    admissions,
    is_turn_over,
    newcomers_turn,
    next_batch,
    piece_tokens,
)
from whitedwarf.errors import UsageError


@dataclass
class Simulated:
    key: int
    lane: int
    prompt: int
    answer: int
    pause: int = 40  # the prompt is read in pieces of so many tokens at most
    position: int = 0
    is_started: bool = False
    last_served: int = 0
    turns_waited: int = 0

    @property
    def phase(self) -> Phase:
        if not self.is_started:
            return Phase.WAITING
        return Phase.PREFILLING if self.position < self.prompt else Phase.DECODING

    @property
    def candidate(self) -> Candidate:
        stop = min(self.prompt, (self.position // self.pause + 1) * self.pause)
        pending = stop - self.position if self.phase is Phase.PREFILLING else 1
        return Candidate(self.key, self.lane, self.phase, self.position, pending, self.last_served)


class Traffic(RuleBasedStateMachine):
    """Requests come, run and go in any order; every batch is checked."""

    requests = Bundle("requests")

    @initialize(chunk=st.integers(1, 9), parallel=st.integers(1, 4), spare=st.integers(0, 12))
    def choose_limits(self, chunk: int, parallel: int, spare: int) -> None:
        self.limits = Limits(max_rows=parallel + spare, chunk_tokens=chunk, max_parallel=parallel)
        self.live: dict[int, Simulated] = {}
        self.num_batches = 0
        self.num_keys = 0

    @rule(
        target=requests,
        lane=st.integers(0, 3),
        prompt=st.integers(1, 40),
        answer=st.integers(0, 6),
        pause=st.sampled_from([1, 3, 40]),
    )
    def arrive(self, lane: int, prompt: int, answer: int, pause: int) -> int:
        self.num_keys += 1
        self.live[self.num_keys] = Simulated(self.num_keys, lane, prompt, answer, pause)
        return self.num_keys

    @rule(key=consumes(requests))
    def cancel(self, key: int) -> None:
        self.live.pop(key, None)

    @rule(target=requests, reused=st.integers(0, 39))
    def run_a_batch(self, reused: int) -> object:
        self._admit(reused)
        started = {key: request for key, request in self.live.items() if request.is_started}
        shares = {share.key: share.num_tokens for share in next_batch(self._candidates(), self.limits)}
        assert sum(shares.values()) <= self.limits.max_rows
        assert bool(shares) == bool(started)
        self.num_batches += 1
        read = [key for key in shares if started[key].phase is Phase.PREFILLING]
        for request in started.values():
            self._run(request, shares.get(request.key, 0))
        if read and self._is_turn_over(started[read[0]]):
            for request in started.values():
                request.turns_waited = 0 if request.key in shares else request.turns_waited + 1
        return multiple()

    @invariant()
    def no_prompt_starves(self) -> None:
        for request in getattr(self, "live", {}).values():
            assert request.turns_waited < self.limits.max_parallel

    def teardown(self) -> None:
        """Everything that came is served in the end."""
        if not hasattr(self, "live"):
            return
        work = sum(request.prompt + request.answer + 1 for request in self.live.values())
        for _ in range(work):
            if self.live:
                self.run_a_batch(0)
        assert not self.live

    def _admit(self, reused: int) -> None:
        before = [request for request in self.live.values() if request.is_started]
        keys = admissions(self._candidates(), self.limits)
        assert len(before) + len(keys) <= self.limits.max_parallel
        for key in keys:
            request = self.live[key]
            earlier = [other for other in self.live.values() if other.key < key and other.lane == request.lane]
            assert not earlier, "requests of one lane run one after another"
            request.is_started = True
            request.last_served = newcomers_turn(self.num_batches)
            request.position = min(reused, request.prompt - 1)
        self._check_nobody_waits_for_nothing()

    def _check_nobody_waits_for_nothing(self) -> None:
        running = [request for request in self.live.values() if request.is_started]
        lanes = {request.lane for request in running}
        idle = [request for request in self.live.values() if not request.is_started and request.lane not in lanes]
        assert not idle or len(running) == self.limits.max_parallel

    def _candidates(self) -> list[Candidate]:
        return [request.candidate for request in self.live.values()]

    def _run(self, request: Simulated, num_tokens: int) -> None:
        if request.phase is Phase.DECODING:
            assert num_tokens == 1, "every stream gets a token in every batch"
            request.answer -= 1
        elif num_tokens:
            self._check_piece(request, num_tokens)
            request.position += num_tokens
            request.last_served = self.num_batches if self._is_turn_over(request) else request.last_served
        if request.phase is Phase.DECODING and request.answer <= 0:
            del self.live[request.key]

    def _is_turn_over(self, request: Simulated) -> bool:
        return request.phase is Phase.DECODING or is_turn_over(request.position, self.limits.chunk_tokens)

    def _check_piece(self, request: Simulated, num_tokens: int) -> None:
        end = request.position + num_tokens
        chunk = self.limits.chunk_tokens
        assert end <= request.prompt
        assert request.position // chunk == (end - 1) // chunk, "a piece never crosses a multiple of the chunk"
        if self.limits.max_rows >= chunk + self.limits.max_parallel:
            is_end = end == request.prompt or end % chunk == 0 or end % request.pause == 0
            assert is_end, "with room for a chunk, pieces end at its multiples"


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def prefilling(key: int, position: int, pending: int, last_served: int = 0) -> Candidate:
    return Candidate(key, key, Phase.PREFILLING, position, pending, last_served)


def decoding(key: int) -> Candidate:
    return Candidate(key, key, Phase.DECODING, 10, 1)


LIMITS = Limits(max_rows=12, chunk_tokens=8, max_parallel=4)


def test_decodes_and_a_chunk_share_one_forward() -> None:
    assert next_batch([prefilling(1, 0, 100), decoding(2), decoding(3)], LIMITS) == (
        Share(2, 1),
        Share(3, 1),
        Share(1, 8),
    )


def test_a_resumed_prompt_first_runs_to_the_next_multiple_of_the_chunk() -> None:
    assert next_batch([prefilling(1, 13, 100)], LIMITS) == (Share(1, 3),)


def test_short_prompts_travel_together() -> None:
    assert next_batch([prefilling(1, 0, 5), prefilling(2, 0, 6), prefilling(3, 0, 7)], LIMITS) == (
        Share(1, 5),
        Share(2, 6),
    )


def test_the_prompt_served_longest_ago_goes_first() -> None:
    assert next_batch([prefilling(1, 8, 50, 2), prefilling(2, 0, 50, 1)], LIMITS) == (Share(2, 8),)


def test_a_newcomer_goes_before_the_prompt_that_was_just_served_and_behind_the_others() -> None:
    newcomer = prefilling(3, 0, 8, newcomers_turn(5))
    assert next_batch([prefilling(1, 8, 20_000, 5), newcomer], LIMITS) == (Share(3, 8),)
    assert next_batch([prefilling(1, 8, 20_000, 5), prefilling(2, 8, 20_000, 4), newcomer], LIMITS) == (Share(2, 8),)


def test_a_held_request_has_its_place_and_nothing_to_run() -> None:
    held = [Candidate(key, key, Phase.HELD) for key in range(4)]
    assert next_batch(held, LIMITS) == ()
    assert admissions([*held, Candidate(9, 9, Phase.WAITING)], LIMITS) == ()


def test_nothing_to_run_is_an_empty_batch() -> None:
    assert next_batch([], LIMITS) == ()


def test_a_blocked_lane_does_not_hold_up_the_others() -> None:
    waiting = [Candidate(2, 7, Phase.WAITING), Candidate(3, 8, Phase.WAITING)]
    assert admissions([Candidate(1, 7, Phase.DECODING, 3, 1), *waiting], LIMITS) == (3,)


@pytest.mark.parametrize(("rows", "chunk", "parallel"), [(8, 0, 1), (8, 4, 0), (3, 4, 4)])
def test_limits_that_cannot_work_are_refused(rows: int, chunk: int, parallel: int) -> None:
    with pytest.raises(UsageError):
        Limits(max_rows=rows, chunk_tokens=chunk, max_parallel=parallel)


@pytest.mark.parametrize(
    ("token_s", "is_alone", "piece"),
    [
        (None, True, 512),  # nothing is known yet
        (None, False, 512),
        (0.001, True, 2048),
        (0.001, False, 1024),  # 2048 would take others two seconds
        (0.05, True, 512),
        (0.05, False, 128),  # smaller ones read the weights for too few tokens
        (10.0, True, 128),
    ],
)
def test_a_chunk_is_halved_until_it_is_read_in_time(token_s: float | None, is_alone: bool, piece: int) -> None:
    assert piece_tokens(2048, token_s, is_alone=is_alone) == piece
    limits = Limits(2056, 2048, 8).in_time(token_s, is_alone=is_alone)
    assert (limits.max_rows, limits.chunk_tokens) == (piece + 8, piece)


@pytest.mark.parametrize("chunk", [1, 7, 100, 128, 513])
def test_what_cannot_be_halved_or_is_short_stays(chunk: int) -> None:
    assert piece_tokens(chunk, 100.0, is_alone=False) == chunk


@given(st.integers(1, 5000), st.floats(0, 100) | st.none(), st.booleans())
def test_pieces_end_where_chunks_end(chunk: int, token_s: float | None, is_alone: bool) -> None:
    assert chunk % piece_tokens(chunk, token_s, is_alone=is_alone) == 0
