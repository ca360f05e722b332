"""The transcription against transformers' logits (ref.npz), and its parts against independent arithmetic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from oracle import fixtures
from oracle.fixtures import oracle_arrays, oracle_file, oracle_model
from oracle.transcription import (
    Array,
    Model,
    Numbers,
    Run,
    forward,
    fp4_32,
    fp8_64,
    frequencies,
    greedy,
    hadamard,
    new_state,
    power_of_two_scale,
    rotate,
    round_e2m1,
    round_e4m3,
    sinkhorn,
    step,
    stored_row,
    with_rounding,
    yarn_bounds,
)

TINY_A, TINY_Q = "tinyA/tiny-f32.gguf", "tinyQ/tiny-iq2.gguf"
VARIANTS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda model: model,
    "exact": lambda model: with_rounding(model, None),
    "half": lambda model: with_rounding(model, np.float16),
}
REFERENCES = {TINY_A: "tinyA/ref.npz", TINY_Q: "tinyQ/ref.npz"}
LOGIT_TOLERANCE = 1e-4  # measured: 3.1e-5, which is transformers' own float32 noise (its *_chunk_err)


@functools.cache
def run_of(model: str, prompt: str) -> Run:
    return forward(oracle_model(model), oracle_arrays(REFERENCES[model])[f"{prompt}_ids"])


def deviation(model: str, prompt: str) -> Array:
    """(kept positions,) largest difference from the reference's logits"""
    reference = oracle_arrays(REFERENCES[model])
    kept = run_of(model, prompt).logits[reference[f"{prompt}_pos"]]
    return np.asarray(np.abs(kept - reference[f"{prompt}_logits"]).max(axis=1))


# ---- against transformers ------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", ["short", "text", "medium", pytest.param("long", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", [TINY_A, TINY_Q])
def test_logits_match_transformers(model: str, prompt: str) -> None:
    assert deviation(model, prompt).max() <= LOGIT_TOLERANCE


@pytest.mark.parametrize("prompt", ["short", "text", "medium"])
@pytest.mark.parametrize("model", [TINY_A, TINY_Q])
def test_the_likeliest_token_is_the_same_at_every_position(model: str, prompt: str) -> None:
    expected = oracle_arrays(REFERENCES[model])[f"{prompt}_top5"][:, 0]
    np.testing.assert_array_equal(run_of(model, prompt).logits.argmax(axis=1), expected)


@pytest.mark.parametrize(("model", "layers"), [(TINY_A, (3, 4, 5)), (TINY_Q, (1, 2, 3))])
def test_the_same_experts_are_picked(model: str, layers: tuple[int, ...]) -> None:
    for layer in layers:
        expected = oracle_arrays(REFERENCES[model])[f"router_{layer}"]
        np.testing.assert_array_equal(np.sort(run_of(model, "medium").experts(layer)), np.sort(expected))


@pytest.mark.parametrize(("model", "layers"), [(TINY_A, (2, 4)), (TINY_Q, (1, 3))])
def test_the_same_compressed_rows_are_picked(model: str, layers: tuple[int, ...]) -> None:
    for layer in layers:
        expected = oracle_arrays(REFERENCES[model])[f"index_{layer}"]
        picked = [rows.tolist() for rows in run_of(model, "medium").blocks(layer)]
        assert picked == [sorted(row[row >= 0].tolist()) for row in expected]


@pytest.mark.parametrize("model", [TINY_A, TINY_Q])
def test_streams_entering_every_layer_match_transformers(model: str) -> None:
    reference = oracle_arrays(REFERENCES[model])
    run = run_of(model, "short")
    np.testing.assert_allclose(run.streams(), reference["short_hidden"], rtol=0, atol=2e-4)
    np.testing.assert_allclose(np.array(run.state.trace.final), reference["short_final"], rtol=0, atol=5e-5)


@pytest.mark.parametrize("model", [TINY_A, TINY_Q])
def test_choice_margins_are_those_of_transformers(model: str) -> None:
    router, _ = run_of(model, "text").choice_margins()
    assert router == pytest.approx(oracle_arrays(REFERENCES[model])["text_choice_margins"][0], abs=2e-6)


@pytest.mark.parametrize("model", [TINY_A, TINY_Q])
def test_greedy_continuation_matches_transformers(model: str) -> None:
    reference = oracle_arrays(REFERENCES[model])
    assert greedy(oracle_model(model), reference["short_ids"], 48) == reference["short_gen_ids"].tolist()


@pytest.mark.slow
def test_greedy_continuation_of_a_longer_prompt_matches_transformers() -> None:
    reference = oracle_arrays(REFERENCES[TINY_A])
    assert greedy(oracle_model(TINY_A), reference["medium_ids"], 48) == reference["medium_gen_ids"].tolist()


def test_the_angle_precision_changes_little() -> None:
    ids = oracle_arrays(REFERENCES[TINY_A])["text_ids"]
    exact = forward(replace(oracle_model(TINY_A), angle_dtype=np.float64), ids).logits
    np.testing.assert_allclose(run_of(TINY_A, "text").logits, exact, rtol=0, atol=1e-4)


def test_rows_are_visible_as_soon_as_their_window_closes() -> None:
    model = oracle_model(TINY_A)
    state = new_state(model)
    counts = []
    for token in oracle_arrays(REFERENCES[TINY_A])["medium_ids"][:130]:
        step(model, state, int(token))
        counts.append((len(state.layers[2].compressed), len(state.layers[3].compressed)))
    assert counts == [((p + 1) // 4, (p + 1) // 128) for p in range(130)]


# ---- against its own golden data -------------------------------------------------------------------

GOLDEN_SHORT = [
    (TINY_A, "packed.npz", "exact"),
    (TINY_A, "packed.npz", "half"),
    *((f"{name}/tiny-f32.gguf", f"{name}/ref.npz", variant) for name in ("tinyB", "tinyC") for variant in VARIANTS),
]


@pytest.mark.parametrize(("model", "golden", "variant"), GOLDEN_SHORT)
def test_the_golden_data_is_what_the_transcription_gives_today(model: str, golden: str, variant: str) -> None:
    data = oracle_arrays(golden)
    logits = forward(VARIANTS[variant](oracle_model(model)), data["short_ids"]).logits
    # The noise is what float32-sized disturbances do; another machine's float64 disturbs a billion times less.
    np.testing.assert_allclose(logits, data[f"{variant}_short_logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["tinyB", "tinyC"])
def test_the_further_models_choose_with_comfortable_margins(name: str) -> None:
    data = oracle_arrays(f"{name}/ref.npz")
    assert data["plain_medium_choice_margins"].min() >= 5e-5
    assert data["plain_medium_noise"].max() <= 1e-4


@pytest.mark.parametrize("name", ["tinyB", "tinyC"])
def test_the_further_models_clamp_and_select(name: str) -> None:
    """Else their golden data would say nothing about the clamps and the top-k."""
    model = oracle_model(f"{name}/tiny-f32.gguf")
    data = oracle_arrays(f"{name}/ref.npz")
    free = replace(model.numbers, clamp_routed=(1e9,) * model.numbers.layers)
    loose = forward(replace(model, numbers=free), data["short_ids"]).logits
    assert np.abs(loose - data["plain_short_logits"]).max() > 1e-2
    ratio_4 = model.numbers.ratios.index(4)
    assert np.any(data[f"plain_index_{ratio_4}"][-1] < 300 // 4 - model.numbers.index_topk)


# ---- rounding (2.7) ------------------------------------------------------------------------------


def every_float32_near(limit: float) -> Array:
    """Values that matter to a rounding: random ones, exact codes, ties between codes and their neighbours."""
    rng = np.random.default_rng(3)
    spread = rng.uniform(-limit, limit, 20000) * 2.0 ** rng.integers(-14, 1, 20000)
    sixteenths = np.arange(-limit * 16, limit * 16 + 1) / 16
    tiny = np.arange(-64, 65) * 2.0**-11
    points = np.concatenate([spread, sixteenths, tiny]).astype(np.float32)
    near = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))])
    return np.asarray(near[np.abs(near) <= limit].astype(np.float64))


@pytest.mark.parametrize(
    ("rounding", "dtype", "limit"),
    [(round_e4m3, ml_dtypes.float8_e4m3fn, 448.0), (round_e2m1, ml_dtypes.float4_e2m1fn, 6.0)],
)
def test_rounding_equals_the_cast_of_ml_dtypes(rounding: Any, dtype: Any, limit: float) -> None:
    values = every_float32_near(limit)
    np.testing.assert_array_equal(rounding(values), values.astype(np.float32).astype(dtype).astype(np.float64))


def test_four_bit_ties_go_to_the_even_code() -> None:
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    np.testing.assert_array_equal(round_e2m1(ties), [0, 1, 1, 2, 2, 4, 4])


@pytest.mark.parametrize(("largest", "exact"), [(448.0, 448.0), (6.0, 6.0)])
def test_the_scale_is_the_least_power_of_two_that_fits(largest: float, exact: float) -> None:
    amax = np.random.default_rng(1).uniform(1e-3, 1e3, 2000)
    scale = power_of_two_scale(amax, largest)
    assert np.all(np.log2(scale) == np.rint(np.log2(scale)))
    assert np.all(amax / scale <= largest)
    assert np.all(amax / scale > largest / 2)
    # float32(1/448) and float32(1/6) are above and below the true quotient: full range keeps scale 1 in one case only
    one = np.float32(exact) * np.float32(1 / exact)
    assert power_of_two_scale(np.array([exact]), largest) == (1.0 if one <= 1 else 2.0)


def test_rounded_blocks_do_not_change_when_rounded_again() -> None:
    x = np.random.default_rng(2).normal(size=(5, 112)) * np.array([1e-6, 1e-2, 1, 30, 1e4])[:, None]
    np.testing.assert_array_equal(fp8_64(fp8_64(x)), fp8_64(x))
    np.testing.assert_array_equal(fp4_32(fp4_32(x)), fp4_32(x))


def test_a_short_last_block_has_a_scale_of_its_own() -> None:
    x = np.concatenate([np.full(64, 1000.0), np.full(48, 0.01)])
    rounded = fp8_64(x)
    np.testing.assert_allclose(rounded[64:], 0.01, rtol=1 / 16)
    np.testing.assert_allclose(rounded[:64], 1000.0, rtol=1 / 16)


def test_rounding_error_is_at_most_half_a_step() -> None:
    x = np.random.default_rng(4).normal(size=(50, 128))
    assert np.all(np.abs(fp8_64(x) - x) <= np.abs(x) / 16 + 2.0**-10 * np.abs(x).max() / 224)
    assert np.all(np.abs(fp4_32(x) - x).reshape(50, 4, 32).max(-1) <= np.abs(x).reshape(50, 4, 32).max(-1) / 3)


def test_stored_rows_round_only_what_they_are_told_to() -> None:
    model = oracle_model(TINY_A)
    row = np.random.default_rng(5).normal(size=128)
    np.testing.assert_array_equal(stored_row(model, row), row)
    exact = stored_row(with_rounding(model, None), row)
    halved = stored_row(with_rounding(model, np.float16), row)
    np.testing.assert_array_equal(exact[112:], row[112:])
    np.testing.assert_array_equal(halved[:112], exact[:112])
    np.testing.assert_array_equal(halved[112:], row[112:].astype(np.float32).astype(np.float16))


def test_hadamard_is_orthonormal_and_its_own_inverse() -> None:
    matrix = hadamard(np.eye(128))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(128), atol=1e-14)
    np.testing.assert_allclose(hadamard(matrix), np.eye(128), atol=1e-14)


def test_hadamard_is_in_sylvester_order() -> None:
    sylvester = np.array([[1.0]])
    for _ in range(4):
        sylvester = np.kron([[1, 1], [1, -1]], sylvester)
    np.testing.assert_allclose(hadamard(np.eye(16)), sylvester / 4)


# ---- hyper-connections, rotary position ----------------------------------------------------------


def test_sinkhorn_gives_columns_that_sum_to_one_and_rows_that_nearly_do() -> None:
    for seed in range(5):
        c = sinkhorn(np.random.default_rng(seed).normal(size=(4, 4)), 20, 1e-6)
        assert np.all(c > 0)
        np.testing.assert_allclose(c.sum(axis=0), 1, atol=2e-6)
        np.testing.assert_allclose(c.sum(axis=1), 1, atol=1e-4)


def test_sinkhorn_of_equal_scores_is_uniform() -> None:
    np.testing.assert_allclose(sinkhorn(np.zeros((4, 4)), 20, 1e-6), 0.25, atol=1e-6)


def release_numbers() -> Numbers:
    """The rotary side of the released configuration (1.2) on top of the tiny one."""
    return replace(
        oracle_model(TINY_A).numbers,
        rope_dim=64,
        rope_base=10000.0,
        compress_rope_base=160000.0,
        yarn_factor=16.0,
        yarn_original_context=65536,
        yarn_beta_fast=32.0,
        yarn_beta_slow=1.0,
    )


def test_yarn_of_the_released_configuration_goes_over_between_pairs_15_and_25() -> None:
    n = release_numbers()
    assert yarn_bounds(n) == (15, 25)
    plain = 160000.0 ** (-2 * np.arange(32) / 64)
    scaled = frequencies(n, 4, np.float64)
    np.testing.assert_allclose(scaled[:16], plain[:16], rtol=1e-15)
    np.testing.assert_allclose(scaled[25:], plain[25:] / 16, rtol=1e-15)
    np.testing.assert_allclose(scaled[20], plain[20] * (0.5 + 0.5 / 16), rtol=1e-15)
    np.testing.assert_allclose(frequencies(n, 0, np.float64), 10000.0 ** (-2 * np.arange(32) / 64), rtol=1e-15)


def test_rotation_depends_on_distance_only_and_turns_back() -> None:
    model = replace(oracle_model(TINY_A), angle_dtype=np.float64)
    q, k = np.random.default_rng(6).normal(size=(2, 128))
    near = rotate(model, 4, q, 7) @ rotate(model, 4, k, 2)
    far = rotate(model, 4, q, 1007) @ rotate(model, 4, k, 1002)
    assert near == pytest.approx(far, abs=1e-10)
    np.testing.assert_allclose(rotate(model, 4, rotate(model, 4, q, 99), 99, direction=-1), q, atol=1e-12)
    np.testing.assert_array_equal(rotate(model, 4, q, 99)[:112], q[:112])


# ---- the data ------------------------------------------------------------------------------------


def test_a_packed_file_is_unpacked_once() -> None:
    path = oracle_file(TINY_A)
    before = path.stat().st_mtime_ns
    oracle_file.cache_clear()
    assert oracle_file(TINY_A) == path
    assert path.stat().st_mtime_ns == before
    assert fixtures.CACHE in path.parents


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.gguf"):
        oracle_file("nothing.gguf")
