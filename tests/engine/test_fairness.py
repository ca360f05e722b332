"""A prompt of 20,000 tokens beside streams and short requests: nobody waits longer than it must (issue 4)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FakeModel, greedy_continuation
from whitedwarf.engine.engine import DEFAULT_CHUNK_TOKENS, Engine
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import GREEDY, GenerateOptions, Token
from whitedwarf.engine.scheduler import Candidate, Limits, Phase, is_turn_over, newcomers_turn, next_batch

LONG = 20_000
CHUNK = DEFAULT_CHUNK_TOKENS
ROOMY = 1 << 20
VOCAB = 64
READ_ONLY = GenerateOptions(max_tokens=0)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


def greedy(count: int) -> GenerateOptions:
    return GenerateOptions(max_tokens=count, sampling=GREEDY)


def gated(budget_bytes: int) -> tuple[Gate, Engine]:
    gate = Gate()
    model = FakeModel(context_length=32_768, max_rollback=16, before_forward=gate)
    return gate, Engine(model, prefix_budget_bytes=budget_bytes)


def num_tokens(generation: Generation) -> int:
    count = 0
    while (event := generation.next_event(0)) is not None:
        count += isinstance(event, Token)
    return count


@pytest.mark.parametrize("budget_bytes", [0, ROOMY])
def test_every_stream_gets_a_token_beside_every_chunk(budget_bytes: int) -> None:
    gate, engine = gated(budget_bytes)
    with engine:
        streams = [engine.submit(prompt(2, seed), greedy(500)) for seed in range(3)]
        gate.let_through(8)
        gate.wait_for_pass(9)
        long = engine.submit(prompt(LONG, 9), READ_ONLY)
        gate.open()
        long.result(PATIENCE_S)
        for stream in streams:
            stream.cancel()
    beside = [rows for rows in gate.passes if max(rows) > 2]
    assert sum(max(rows) for rows in beside) == LONG
    assert all(sorted(rows)[:-1] == [1, 1, 1] for rows in beside)


@pytest.mark.parametrize("budget_bytes", [0, ROOMY])
@pytest.mark.parametrize("length", [1, 17, 300, CHUNK])
def test_a_short_request_waits_for_the_chunk_at_hand_and_no_other(budget_bytes: int, length: int) -> None:
    gate, engine = gated(budget_bytes)
    with engine:
        long = engine.submit(prompt(LONG), READ_ONLY)
        gate.let_through(5)
        gate.wait_for_pass(6)
        short = engine.submit(prompt(length, 1), greedy(3))
        num_before = len(gate.passes)
        tokens_read = 0
        while not num_tokens(short):
            tokens_read += max(gate.passes[-1])
            gate.let_through()
            gate.wait_for_pass(num_before + 1)
            num_before += 1
        assert tokens_read <= 2 * CHUNK
        gate.open()
        assert short.result(PATIENCE_S).ids == greedy_continuation(prompt(length, 1), 3, VOCAB)
        long.cancel()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, LONG - 1), st.integers(1, CHUNK), st.integers(0, 6))
def test_the_scheduler_alone_keeps_both_promises(reused: int, short: int, num_streams: int) -> None:
    """Whenever the short one comes and wherever the long one was resumed; batch by batch, no engine."""
    limits = Limits(max_rows=CHUNK + 8, chunk_tokens=CHUNK, max_parallel=8)
    streams = [Candidate(key, key, Phase.DECODING, 10, 1) for key in range(1, num_streams + 1)]
    position, last_served, num_batches, arrival = reused, newcomers_turn(0), 0, 1 + reused % 3
    newcomer: Candidate | None = None
    while position < LONG:
        if num_batches == arrival:
            newcomer = Candidate(99, 99, Phase.PREFILLING, 0, short, newcomers_turn(num_batches))
        long = Candidate(50, 50, Phase.PREFILLING, position, LONG - position, last_served)
        shares = {
            share.key: share.num_tokens
            for share in next_batch([*streams, long, *([newcomer] if newcomer else [])], limits)
        }
        num_batches += 1
        assert all(shares[stream.key] == 1 for stream in streams)
        if newcomer is not None:
            assert shares[99] == short, "read whole, in the first batch after it came"
            newcomer = None
        position += shares.get(50, 0)
        last_served = num_batches if is_turn_over(position, CHUNK) else last_served
