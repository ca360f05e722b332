"""Directions taken out of attention's and experts' outputs: what the edit is, and that no bits change without one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.engines import logits_of, oracle_model, pieces, run
from whitedwarf.errors import FileFormatError
from whitedwarf.model.base import Span
from whitedwarf.model.batch import Batch
from whitedwarf.model.steering import Steering, read_directions, uneven_layers
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.host_arrays import HostArrays

FILES = ["tinyA/tiny-mxfp4.gguf", "tinyQ/tiny-iq2.gguf"]
HOST_OPS = HostArrays()
every_file = pytest.mark.parametrize("file", FILES)


def tokens(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 512, count).astype(np.int32)


def directions_of(model: Transformer, seed: int = 3) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(len(model.layers), model.config.hp.hidden_size))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def steered(file: str, ffn: float, attention: float, seed: int = 3) -> Transformer:
    model = oracle_model(file, kv_cache="packed", quality=False)
    return model.steered(Steering(directions_of(model, seed), ffn, attention))


def test_a_scale_of_1_takes_the_direction_out_and_minus_1_doubles_it() -> None:
    rows = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    direction = rows[0] / np.linalg.norm(rows[0])
    along = rows @ direction
    for scale in (1.0, -1.0, 0.25):
        edited = HOST_OPS.steer(rows, direction, scale)
        np.testing.assert_allclose(edited, rows - scale * np.outer(along, direction), atol=1e-5)
        np.testing.assert_allclose(edited @ direction, (1 - scale) * along, atol=1e-5)
        assert edited.dtype == np.float32


@settings(max_examples=30)
@given(num_rows=st.integers(1, 70), width=st.sampled_from([64, 100, 256, 1021]), seed=st.integers(0, 99))
def test_a_row_is_edited_alike_in_any_company(num_rows: int, width: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(num_rows, width)).astype(np.float32)
    direction = generator.normal(size=width).astype(np.float32)
    alone = np.concatenate([HOST_OPS.steer(rows[i : i + 1].copy(), direction, 1.5) for i in range(num_rows)])
    assert (HOST_OPS.steer(rows, direction, 1.5) == alone).all()


@every_file
@settings(max_examples=5)
@given(sizes=st.lists(st.integers(1, 90), min_size=1, max_size=6))
def test_any_split_of_a_steered_prompt_gives_the_same_bits(file: str, sizes: list[int]) -> None:
    model, ids = steered(file, 1.5, -0.5), tokens(200)
    assert (run(model, model.new_state(), pieces(ids, sizes)) == logits_of(model, ids)).all()


@every_file
def test_companions_and_single_tokens_change_nothing(file: str) -> None:
    model, ids = steered(file, 1.5, -0.5), tokens(150)
    alone = logits_of(model, ids)
    assert (logits_of(model, ids, 1) == alone).all()
    spans = [Span(model.new_state(), tokens(37, 1)), Span(model.new_state(), ids, "all")]
    assert (model.forward(spans)[1] == alone).all()


@every_file
def test_steering_changes_results_by_each_scale_and_direction(file: str) -> None:
    ids = tokens(140)
    plain = logits_of(oracle_model(file, kv_cache="packed", quality=False), ids)
    results = [plain] + [logits_of(steered(file, *scales), ids) for scales in ((1, 0), (-1, 0), (0, 1), (1, 1))]
    results.append(logits_of(steered(file, 1, 0, seed=4), ids))
    for i, result in enumerate(results):
        assert all((result != other).any() for other in results[:i])


@every_file
def test_no_steering_is_bit_identical_to_never_having_had_one(file: str) -> None:
    model = oracle_model(file, kv_cache="packed", quality=False)
    ids = tokens(140)
    back = model.steered(Steering(directions_of(model))).steered(None)
    assert back.steering is None
    assert (logits_of(back, ids) == logits_of(model, ids)).all()
    assert (logits_of(steered(file, 1, 0), ids) != logits_of(model, ids)).any()


def test_a_scale_of_0_and_a_layer_of_zeros_are_no_edit_at_all() -> None:
    directions = np.eye(3, 8, dtype=np.float32)
    directions[1] = 0
    steering = Steering(directions, ffn=2.0, attention=0.0)
    assert (steering.edits(1).ffn, steering.edits(1).attention, steering.edits(0).attention) == (None, None, None)
    assert steering.edits(2).ffn is not None
    with pytest.raises(ValueError, match="use None"):
        Steering(directions, 0.0, 0.0)
    with pytest.raises(ValueError, match="-100 to 100"):
        Steering(directions, 101.0)


def test_both_backends_steer_alike() -> None:
    results = []
    for name in ("cpu", "reference"):
        model = oracle_model("tinyA/tiny-f32.gguf", name)
        results.append(logits_of(model.steered(Steering(directions_of(model), 1.5, -0.5)), tokens(30)))
    np.testing.assert_allclose(*results, atol=2e-3)


class EditedPart:
    """Attention or experts whose output is edited from outside."""

    def __init__(self, part: Any, direction: np.ndarray, scale: float) -> None:
        self._part, self._direction, self._scale = part, direction, np.float32(scale)

    def forward(self, x: np.ndarray, batch: Batch, layer: int) -> np.ndarray:
        y = self._part.forward(x, batch, layer)
        along = np.array([(row * self._direction).sum() for row in y])
        return y - (self._scale * along)[:, None] * self._direction


@every_file
def test_outputs_are_edited_before_they_join_the_streams(file: str) -> None:
    model, ids = oracle_model(file, kv_cache="packed", quality=False), tokens(60)
    directions = directions_of(model)
    layers = tuple(
        replace(
            layer,
            attention=EditedPart(layer.attention, directions[layer.index], -0.5),
            experts=EditedPart(layer.experts, directions[layer.index], 1.5),
        )
        for layer in model.layers
    )
    expected = logits_of(replace(model, layers=layers), ids)
    assert (logits_of(steered(file, 1.5, -0.5), ids) == expected).all()


def test_a_digest_names_all_that_changes_results() -> None:
    directions = np.eye(3, 8, dtype=np.float32)
    names = {
        Steering(directions, 1.0, 0.0).digest,
        Steering(directions, 0.0, 1.0).digest,
        Steering(directions, -1.0, 0.0).digest,
        Steering(directions[::-1].copy(), 1.0, 0.0).digest,
    }
    assert len(names) == 4
    assert {Steering(directions.copy(), 1.0, -0.0).digest} < names
    assert {len(name) for name in names} == {32}


def test_a_file_has_as_many_finite_numbers_as_the_model_needs() -> None:
    good = np.eye(3, 8, dtype="<f4")
    endless = good.copy()
    endless[1, 7] = np.inf
    assert (read_directions(good.tobytes(), 3, 8, "a.f32") == good).all()
    for data, told in (
        (good.tobytes()[:-4], "a.f32: 92 bytes; expected 96, f32 numbers for 3 layers of 8"),
        (endless.tobytes(), "layer 1 has a number that is not finite"),
        (bytes(96), "all numbers are 0"),
    ):
        with pytest.raises(FileFormatError, match=told):
            read_directions(data, 3, 8, "a.f32")


def test_directions_that_are_not_of_length_1_are_found() -> None:
    directions = np.eye(4, 8, dtype=np.float32)
    directions[1] *= 2
    directions[2] = 0
    assert uneven_layers(directions) == [1]
