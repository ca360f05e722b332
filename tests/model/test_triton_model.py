"""The whole model on Triton kernels: where there is no device, in Triton's interpreter, so few and small passes."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="triton is not installed: pip install 'whitedwarf[cuda]'")


from model.triton_models import DEVICE, MANY, Nanos, assert_close, nano_models, tokens
from oracle.fixtures import oracle_file
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.triton_ops import TritonOps


@pytest.fixture(scope="module")
def nanos() -> Nanos:
    return nano_models()


def test_pieces_of_a_prompt_give_the_logits_of_the_whole(nanos: Nanos) -> None:
    truth, model = nanos
    ids = tokens(20)
    [expected] = truth.forward([Span(truth.new_state(), ids, "all")])
    state, pieces = model.new_state(), []
    for start, end in ((0, 17), (17, 18), (18, 20)):
        [logits] = model.forward([Span(state, ids[start:end], "all")])
        pieces.append(logits)
    actual = np.concatenate(pieces)
    assert_close(actual, expected, MANY)
    assert (actual.argmax(axis=1) == expected.argmax(axis=1)).mean() >= 0.9  # random tokens: some are near ties


def test_a_snapshot_goes_on_as_its_state_does(nanos: Nanos) -> None:
    _, model = nanos
    state, ids, more = model.new_state(), tokens(5), tokens(1, seed=1)
    model.forward([Span(state, ids, "none")])
    other = model.new_state()
    other.restore(PackedArrays(model).snapshot(5, list(PackedArrays(model).of(state.snapshot()))))
    [expected], [actual] = (model.forward([Span(one, more)]) for one in (state, other))
    assert (actual == expected).all()


@pytest.mark.parametrize("file", ["tinyA/tiny-mxfp4.gguf", "tinyQ/tiny-iq2.gguf"])
def test_synthetic_models_of_other_quants_agree(file: str) -> None:
    with open_gguf(oracle_file(file)) as gguf:
        ops = CpuOps(1, quality=True), TritonOps(DEVICE)
        truth, model = (load_model(gguf, own, "f32").transformer for own in ops)
    state, other, ids = truth.new_state(), model.new_state(), tokens(4, 512)
    for start in range(0, len(ids), 2):  # few rows: f32, which leaves the choice of experts as it is
        spans = [Span(one, ids[start : start + 2], "all") for one in (state, other)]
        [expected], [actual] = (own.forward([span]) for own, span in zip((truth, model), spans, strict=True))
        assert_close(actual, expected, 1e-4)
