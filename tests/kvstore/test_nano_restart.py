"""A sequence of the bundled model that is saved, forgotten and read again answers with the same bits."""

import numpy as np
import pytest

from kvstore.folder import StoreBench
from oracle.engines import model_at, run
from oracle.fixtures import ROOT
from whitedwarf.kvstore.file import Reason
from whitedwarf.kvstore.payload import Layout, Payload, PayloadKind
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.model.session_payload import SessionArrays

NANO = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"


def layout_of(model) -> Layout:
    hp = model.config.hp
    sizes = hp.head_dim, hp.index_head_dim, hp.vocab_size, hp.sliding_window, 4096
    rows = model.config.kv_format.row_bytes, model.config.key_format.row_bytes
    return Layout(hp.compress_ratios, *sizes, row_kind=1, row_bytes=rows[0], key_bytes=rows[1])


ARRAYS = {PayloadKind.DS4: SessionArrays, PayloadKind.PACKED: PackedArrays}


@pytest.mark.parametrize("kind", PayloadKind)
@pytest.mark.parametrize("kv_cache", ["packed", "packed-f16", "f16", "f32"])
@pytest.mark.parametrize("length", [100, 127, 128, 129, 511, 512, 513])
def test_logits_after_a_restart_are_the_same_bits(bench: StoreBench, kv_cache, length, kind):
    model = model_at(NANO, kv_cache=kv_cache, quality=False)
    ids = np.random.default_rng(length).integers(0, 4096, length + 150).astype(np.int32)
    text, rest = ids[:length].tobytes(), ids[length:]
    state = model.new_state()
    logits = run(model, state, [ids[:length]])[-1]
    arrays = ARRAYS[kind](model)
    store = bench.open(layout=layout_of(model), budget_bytes=1 << 30)
    store.save(text, Payload(ids[:length], logits, arrays.of(state.snapshot()), kind), Reason.COLD)

    hit = bench.open(layout=layout_of(model), budget_bytes=1 << 30).take(text + b"more")
    other = model.new_state()
    other.restore(arrays.snapshot(hit.payload.num_tokens, hit.payload.layers))
    assert hit.payload.kind is kind
    assert np.array_equal(hit.payload.logits, logits)
    assert np.array_equal(run(model, other, [rest[:1], rest[1:]]), run(model, state, [rest[:1], rest[1:]]))
