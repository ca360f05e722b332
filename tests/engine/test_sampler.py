"""The vectorised sampler against a literal transcription of product.md 0.6, loop by loop."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whitedwarf.engine import sampler
from whitedwarf.engine.request import GREEDY, SamplingOptions
from whitedwarf.engine.sampler import XorShift64Star, pick, sample, score
from whitedwarf.errors import BackendError, UsageError


def exp(value: float) -> float:
    return float(np.exp(np.float64(value)))  # numpy's own, so that both sides round alike


def slow_pick(logits: Sequence[float], options: SamplingOptions, uniform: float) -> int:
    finite = [i for i, logit in enumerate(logits) if math.isfinite(logit)]
    best = finite[0]
    for i in finite:
        if logits[i] > logits[best]:
            best = i
    if options.temperature <= 0:
        return best
    top_p = options.top_p if 0 < options.top_p <= 1 else 1.0
    min_p = options.min_p if options.min_p >= 0 else 0.0
    weight = {i: exp((logits[i] - logits[best]) / options.temperature) for i in finite}
    if options.top_k <= 0 and top_p == 1:
        kept = [(i, weight[i]) for i in finite if weight[i] >= min_p] or [(best, 1.0)]
        return slow_draw(kept, uniform)
    if options.top_k <= 0:
        total = 0.0
        for i in finite:
            total += weight[i]
        ranked = sorted(finite, key=lambda i: -weight[i])
    else:
        ranked = sorted(finite, key=lambda i: -logits[i])[: min(options.top_k, 1024)]
        total = 0.0
        for i in ranked:
            total += weight[i]
    threshold = weight[ranked[0]] / total * min_p
    kept = []
    cumulative = 0.0
    for i in ranked:
        probability = weight[i] / total
        if kept and probability < threshold:
            break
        kept.append((i, probability))
        cumulative += probability
        if cumulative >= top_p:
            break
    return slow_draw(kept, uniform)


def slow_draw(kept: Sequence[tuple[int, float]], uniform: float) -> int:
    total = 0.0
    for _, weight in kept:
        total += weight
    running = 0.0
    for i, weight in kept:
        running += weight
        if running > uniform * total:
            return i
    return kept[-1][0]


grid = st.integers(-8, 8).map(lambda n: n / 2)  # coarse: plenty of ties
logit = st.one_of(grid, st.floats(-60, 60, width=32), st.sampled_from([math.nan, math.inf, -math.inf]))
logit_rows = st.lists(logit, min_size=1, max_size=40).filter(lambda row: any(map(math.isfinite, row)))
share = st.one_of(st.floats(-0.5, 1.5), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
options_of_all_kinds = st.builds(
    SamplingOptions,
    temperature=st.one_of(st.floats(-1, 5), st.sampled_from([0.0, 1.0, 1e-300, 100.0])),
    top_p=share,
    min_p=share,
    top_k=st.integers(-2, 45),
    seed=st.just(1),
)
uniforms = st.one_of(st.integers(0, (1 << 24) - 1), st.sampled_from([0, 1 << 22, 1 << 23, (1 << 24) - 1])).map(
    lambda bits: bits / (1 << 24)
)


@settings(max_examples=600, deadline=None)
@given(logit_rows, options_of_all_kinds, uniforms)
@example([1.0, 1.0, 1.0, 1.0], SamplingOptions(min_p=1.0), 0.5)
@example([0.0, 0.0], SamplingOptions(min_p=1.5, top_p=0.5), 0.75)
@example([0.0, 1e-42], SamplingOptions(min_p=1.5, top_p=0.0), 0.0)  # both of weight 1
def test_every_option_picks_the_token_of_the_literal_text(
    row: list[float], options: SamplingOptions, uniform: float
) -> None:
    logits = np.array(row, np.float32)
    assert pick(logits, options, uniform) == slow_pick(logits.tolist(), options, uniform)


@settings(max_examples=300, deadline=None)
@given(logit_rows, options_of_all_kinds, st.integers(0, 1 << 63), st.data())
def test_what_a_mask_forbids_does_not_exist(
    row: list[float], options: SamplingOptions, seed: int, data: st.DataObject
) -> None:
    allowed = data.draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row)))
    kept = [logit if is_allowed else math.nan for logit, is_allowed in zip(row, allowed, strict=True)]
    mask = np.packbits(allowed, bitorder="little")
    random, same = XorShift64Star(seed), XorShift64Star(seed)
    if not any(map(math.isfinite, kept)):
        with pytest.raises(BackendError, match="allows no token here" if not any(allowed) else "finite logit"):
            sample(np.array(row, np.float32), options, random, mask)
        return
    uniform = 0.0 if options.is_greedy else same.uniform()
    assert sample(np.array(row, np.float32), options, random, mask) == slow_pick(kept, options, uniform)


@given(
    st.sets(st.integers(0, 60_000), min_size=1, max_size=40),
    st.integers(1, 30_000) | st.integers(30_000, 60_001),
    st.sampled_from(["few", "many", "all but few"]),
)
def test_whatever_the_shape_of_a_mask_its_tokens_are_drawn_from(tokens: set[int], vocab_size: int, share: str) -> None:
    flags = np.zeros(60_032, np.bool_)  # whole words of 64
    flags[list(tokens)] = True
    if share == "many":
        flags[::64] = True
    elif share == "all but few":
        flags = ~flags
    expected = np.flatnonzero(flags[:vocab_size])
    mask = np.packbits(flags, bitorder="little")
    logits = np.random.default_rng(len(tokens)).normal(size=vocab_size).astype(np.float32)
    if not len(expected):
        with pytest.raises(BackendError):
            sample(logits, GREEDY, XorShift64Star(1), mask)
        return
    assert sample(logits, GREEDY, XorShift64Star(1), mask) == expected[logits[expected].argmax()]


def test_a_token_behind_the_end_of_a_mask_is_forbidden() -> None:
    mask = np.packbits([True] * 8, bitorder="little")
    assert sample(np.arange(20, dtype=np.float32), GREEDY, XorShift64Star(1), mask) == 7


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(top_p=0.9, min_p=0.0),
        SamplingOptions(top_p=0.9),
        SamplingOptions(top_p=0.99999, min_p=0.0, temperature=100.0),
        SamplingOptions(top_p=0.99999, min_p=0.3, temperature=100.0),
        SamplingOptions(top_k=5000, min_p=0.0, temperature=20.0),
        SamplingOptions(top_k=30, top_p=0.5, temperature=5.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_a_vocabulary_larger_than_the_first_look_picks_the_same(options: SamplingOptions, seed: int) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=3, size=sampler.FIRST_LOOK * 4).astype(np.float32).round(1)  # many ties at the bar
    for uniform in generator.random(10):
        assert pick(logits, options, float(uniform)) == slow_pick(logits.tolist(), options, float(uniform))


@given(st.integers(0, (1 << 64) - 1))
def test_the_generator_is_xorshift64_star(seed: int) -> None:
    mask = (1 << 64) - 1
    x = seed or 0x9E3779B97F4A7C15
    random = XorShift64Star(seed)
    for _ in range(5):
        x ^= x >> 12
        x = (x ^ (x << 25)) & mask
        x ^= x >> 27
        word = (x * 0x2545F4914F6CDD1D) & mask
        assert random.uniform() == ((word >> 40) & 0xFFFFFF) / 2**24


def test_the_generator_gives_the_published_sequence() -> None:
    # What other implementations of xorshift64* (Vigna, arXiv:1402.6246) give from state 1.
    random = XorShift64Star(1)
    assert [random.next_u64() for _ in range(3)] == [5180492295206395165, 12380297144915551517, 13389498078930870103]


def test_seed_zero_stands_for_the_golden_ratio() -> None:
    assert XorShift64Star(0).next_u64() == XorShift64Star(0x9E3779B97F4A7C15).next_u64()


def test_no_seed_means_another_sequence_every_time() -> None:
    assert XorShift64Star().next_u64() != XorShift64Star().next_u64()


def test_greedy_consumes_no_random_number_and_takes_the_lowest_of_equals() -> None:
    random = XorShift64Star(7)
    assert sample(np.array([0, 3, 3, math.inf], np.float32), GREEDY, random) == 1
    assert random.next_u64() == XorShift64Star(7).next_u64()


@pytest.mark.parametrize("options", [GREEDY, SamplingOptions(), SamplingOptions(top_p=0.5), SamplingOptions(top_k=3)])
def test_logits_without_a_finite_one_are_a_clear_error(options: SamplingOptions) -> None:
    with pytest.raises(BackendError, match="at least one finite logit among 3"):
        pick(np.array([math.nan, math.inf, -math.inf], np.float32), options, 0.5)


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    random = XorShift64Star(42)
    counts = np.bincount([sample(logits, SamplingOptions(min_p=0), random) for _ in range(4000)], minlength=3)
    np.testing.assert_allclose(counts / 4000, [0.5, 0.3, 0.2], atol=0.03)


def test_scores_are_logprobs_at_temperature_one_best_first_lowest_id_first() -> None:
    logits = np.array([1.0, 2.0, 2.0, math.nan], np.float32)
    logprob, best = score(logits, 0, 3)
    total = math.log(math.exp(1) + 2 * math.exp(2))
    assert logprob == pytest.approx(1 - total)
    assert [candidate.id for candidate in best] == [1, 2, 0]
    assert best[0].logit == 2.0
    assert best[0].logprob == pytest.approx(2 - total)


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_options_that_are_not_numbers_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        SamplingOptions(**{name: value})
