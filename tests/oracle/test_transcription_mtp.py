"""The transcription of the MTP block: properties that follow from the spec, and its golden data."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from oracle.fixtures import oracle_arrays, oracle_file, oracle_model
from oracle.transcription import Model, Run, forward, with_rounding
from oracle.transcription_mtp import MtpState, Prediction, draft, mtp_forward, mtp_step, with_mtp
from oracle.weights_source import read_tensors


@functools.cache
def model() -> Model:
    return with_mtp(oracle_model("tinyC/tiny-f32.gguf"), read_tensors(oracle_file("tinyC/tiny-mtp-f32.gguf")))


@functools.cache
def main_run(length: int) -> Run:
    return forward(model(), oracle_arrays("tinyC/ref.npz")["medium_ids"][:length])


def predictions(length: int, *, zero_first_embedding: bool = False) -> list[Prediction]:
    ids = oracle_arrays("tinyC/ref.npz")["medium_ids"][:length]
    return mtp_forward(model(), MtpState(), main_run(length), ids, zero_first_embedding)


def test_the_file_holds_the_32_tensors_of_the_support_file() -> None:
    names = read_tensors(oracle_file("tinyC/tiny-mtp-f32.gguf"))
    assert len(names) == 32
    assert all(name.startswith("mtp.0.") for name in names)


def test_there_is_one_prediction_for_every_token_with_a_successor() -> None:
    assert len(predictions(20)) == 19


@pytest.mark.parametrize("name", ["mtp", "mtp_zeroed"])
def test_the_golden_logits_are_what_the_transcription_gives_today(name: str) -> None:
    data = oracle_arrays("tinyC/ref.npz")
    kept = data["mtp_medium_pos"][data["mtp_medium_pos"] < 59]
    got = np.array([p.logits for p in predictions(60, zero_first_embedding=name == "mtp_zeroed")])[kept]
    np.testing.assert_allclose(got, data[f"plain_{name}_medium_logits"][: len(kept)], rtol=0, atol=1e-5)


def test_the_golden_drafts_are_what_the_transcription_gives_today() -> None:
    data = oracle_arrays("tinyC/ref.npz")
    assert draft(model(), data["short_ids"], 4) == data["plain_mtp_short_drafts"].tolist()
    rounded = with_rounding(model(), np.float16)
    assert draft(rounded, data["short_ids"], 4) == data["half_mtp_short_drafts"].tolist()


def test_a_constant_shift_of_the_position_cancels() -> None:
    """So vLLM's position p and llama.cpp's p + 1 are the same thing."""
    exact = replace(model(), angle_dtype=np.float64)
    ids, streams = oracle_arrays("tinyC/ref.npz")["medium_ids"], main_run(40).streams()[-1]
    runs = []
    for shift in (0, 1):
        state = MtpState()
        runs.append([mtp_step(exact, state, streams[p], int(ids[p + 1]), p + shift).logits for p in range(39)])
    np.testing.assert_allclose(runs[0], runs[1], rtol=0, atol=1e-9)


def test_zeroing_the_first_embedding_matters_only_while_position_0_is_in_the_window() -> None:
    window = model().numbers.window
    plain, zeroed = (predictions(60, zero_first_embedding=zeroed) for zeroed in (False, True))
    differences = np.array([np.abs(a.logits - b.logits).max() for a, b in zip(plain, zeroed, strict=True)])
    assert np.all(differences[:window] > 1e-6)
    assert np.all(differences[window:] == 0)
