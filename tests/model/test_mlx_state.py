"""States whose rows lie in MLX's memory: snapshots, sharing, steps back, session files, other threads."""

import threading

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="MLX is not installed (pip install 'mlx[cpu]')")

from oracle.engines import greedy, oracle_model, pieces, run  # noqa: E402
from whitedwarf.engine.engine import Engine  # noqa: E402
from whitedwarf.engine.request import GREEDY, GenerateOptions  # noqa: E402
from whitedwarf.model.base import Span  # noqa: E402
from whitedwarf.model.packed_session import PackedArrays  # noqa: E402
from whitedwarf.model.session_payload import SessionArrays  # noqa: E402
from whitedwarf.model.transformer import Transformer  # noqa: E402

pytestmark = [
    pytest.mark.mlx,
    pytest.mark.skipif(mx.metal.is_available(), reason="on Metal few rows are added up otherwise than many"),
]
PATIENCE_S = 60


def tiny(kv_cache: str = "packed") -> Transformer:
    return oracle_model("tinyA/tiny-mxfp4.gguf", "mlx", kv_cache)


def tokens(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 512, count).astype(np.int32)


def after(model: Transformer, ids: np.ndarray):
    state = model.new_state()
    run(model, state, [ids])
    return state


@pytest.mark.parametrize("position", [3, 130])
def test_a_restored_snapshot_continues_with_the_same_bits_and_so_does_what_it_was_taken_of(position):
    model, ids, others = tiny(), tokens(position + 40), tokens(70, seed=1)
    state = after(model, ids[:position])
    snapshot = state.snapshot()
    expected = run(model, after(model, ids[:position]), [ids[position:]])
    second = model.new_state()
    second.restore(snapshot)
    run(model, second, [others])  # another continuation, from the same rows
    assert (run(model, state, [ids[position:]]) == expected).all()
    third = model.new_state()
    third.restore(snapshot)
    assert (run(model, third, pieces(ids[position:], [1, 7])) == expected).all()


def test_snapshots_rebased_and_packed_continue_with_the_same_bits():
    model, ids = tiny(), tokens(160)
    expected = run(model, after(model, ids[:100]), [ids[100:]])
    state = after(model, ids[:100])
    early = state.snapshot()
    run(model, state, [ids[100:140]])
    late = state.snapshot()
    for snapshot in (early.rebased(late), early.packed(), early.rebased(late).packed()):
        other = model.new_state()
        other.restore(snapshot)
        assert (run(model, other, [ids[100:]]) == expected).all()


def test_tokens_taken_back_leave_no_trace():
    model, ids = tiny(), tokens(200)
    expected = run(model, after(model, ids[:129]), [ids[129:]])
    state = after(model, ids[:129])
    run(model, state, [tokens(9, seed=2)])
    state.rollback(9)
    assert (run(model, state, [ids[129:]]) == expected).all()


@pytest.mark.parametrize("kv_cache", ["packed", "f16"])
def test_a_state_goes_through_session_files_and_continues_with_the_same_bits(kv_cache):
    model, ids = tiny(kv_cache), tokens(200)
    state = after(model, ids[:133])
    snapshot, expected = state.snapshot(), run(model, state, [ids[133:]])
    for arrays in (SessionArrays(model), PackedArrays(model)):
        other = model.new_state()
        other.restore(in_another_thread(lambda arrays=arrays: arrays.snapshot(133, list(arrays.of(snapshot)))))
        assert (run(model, other, [ids[133:]]) == expected).all()


def test_a_session_file_of_mlx_is_that_of_the_native_backend():
    ids, native = tokens(150), oracle_model("tinyA/tiny-mxfp4.gguf", kv_cache="f32")
    model = tiny("f32")
    ours = SessionArrays(model).of(after(model, ids).snapshot())
    theirs = SessionArrays(native).of(after(native, ids).snapshot())
    for mine, other in zip(ours, theirs, strict=True):
        for left, right in zip(mine, other, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)


def test_several_sequences_in_one_pass_get_the_bits_of_each_alone():
    model, ids = tiny(), [tokens(80, seed) for seed in (3, 4, 5)]
    states = [after(model, own[:70]) for own in ids]
    spans = [Span(state, own[70 : 70 + count], "all") for state, own, count in zip(states, ids, (1, 4, 9), strict=True)]
    together = model.forward(spans)
    for own, count, logits in zip(ids, (1, 4, 9), together, strict=True):
        assert (logits == run(model, after(model, own[:70]), [own[70 : 70 + count]])).all()


def test_the_engine_s_thread_runs_a_model_that_another_thread_loaded():
    model, prompts = tiny(), [tokens(9, 6), tokens(17, 7), tokens(9, 6)]
    options = GenerateOptions(max_tokens=6, sampling=GREEDY)
    with Engine(model, prefix_budget_bytes=1 << 26) as engine:
        generations = [engine.submit(prompt.tolist(), options) for prompt in prompts]
        answers = [[token.id for token in generation.result(PATIENCE_S).tokens] for generation in generations]
        again = engine.submit(prompts[1].tolist(), options).result(PATIENCE_S)
    assert answers == [greedy(model, prompt, 6) for prompt in prompts]
    assert [token.id for token in again.tokens] == answers[1]


def in_another_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(PATIENCE_S)
    return found[0]
