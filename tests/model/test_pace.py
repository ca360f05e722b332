"""A pace after each layer changes no bit, is told when the layer is done, and keeps a pass from being recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whitedwarf.engine.paced_model import PacedModel
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import PaceableModel, Span, is_reading
from whitedwarf.model.batch import Batch
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import bundled_model

PROMPT = np.random.default_rng(3).integers(0, 4096, 150).astype(np.int32)


def torch_ops() -> Ops:
    return pytest.importorskip("whitedwarf.ops.torch_ops", reason="torch is not installed").TorchOps()


def mlx_ops() -> Ops:
    pytest.importorskip("mlx.core", reason="MLX is not installed")
    return pytest.importorskip("whitedwarf.ops.mlx_ops").MlxOps()


@pytest.fixture(
    scope="module",
    params=[lambda: CpuOps(2), torch_ops, pytest.param(mlx_ops, marks=pytest.mark.mlx)],
    ids=["cpu", "torch", "mlx"],
)
def nano(request: pytest.FixtureRequest) -> Transformer:
    make: Callable[[], Ops] = request.param
    return load_model(open_gguf(bundled_model()), make(), "packed").transformer


def told(model: Transformer, *paces: Any) -> list[bytes]:
    """A prompt in two pieces and a token, each at its pace -> the logits."""
    state, pieces, found = model.new_state(), (PROMPT[:100], PROMPT[100:], PROMPT[:1]), []
    for ids, pace in zip(pieces, paces, strict=True):
        (logits,) = model.forward([Span(state, ids)], pace=pace)
        found.append(logits.tobytes())
    return found


def test_each_layer_is_told_in_order_and_no_bit_changes(nano: Transformer) -> None:
    layers: list[int] = []
    assert isinstance(nano, PaceableModel)
    assert told(nano, layers.append, layers.append, None) == told(nano, None, None, None)
    assert layers == [*range(6)] * 2


def test_whoever_has_no_engine_rests_after_each_layer_and_token(nano: Transformer) -> None:
    now_s, slept = [0.0], []

    def clock() -> float:
        now_s[0] += 1.0  # each look at it takes a second
        return now_s[0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] += seconds

    paced = PacedModel(nano, 25, sleep, clock)
    state = paced.new_state()
    (read,) = paced.forward([Span(state, PROMPT)])
    assert len(slept) == 6 + 1
    (drawn,) = paced.forward([Span(state, PROMPT[:1])])
    assert len(slept) == 6 + 1 + 1
    assert all(seconds > 0 for seconds in slept)
    truth = nano.new_state()
    expected = [nano.forward([Span(truth, ids)])[0].tobytes() for ids in (PROMPT, PROMPT[:1])]
    assert [read.tobytes(), drawn.tobytes()] == expected


def test_a_pass_with_a_pace_is_no_decode_that_is_recorded(nano: Transformer) -> None:
    seen: list[Batch] = []
    state = nano.new_state()
    nano.forward([Span(state, PROMPT[:3])])

    class Looking(type(nano.ops)):  # type: ignore[misc]
        def passing(self, run: Any, batch: Batch) -> Any:
            seen.append(batch)
            return super().passing(run, batch)

    looking = load_model(open_gguf(bundled_model()), Looking(), "packed").transformer
    own = looking.new_state()
    looking.forward([Span(own, PROMPT[:1])])
    looking.forward([Span(own, PROMPT[:1])], pace=lambda layer: None)
    assert [batch.is_decode for batch in seen] == [True, False]
    assert is_reading([Span(own, PROMPT[:2])])
    assert not is_reading([Span(own, PROMPT[:1])])
