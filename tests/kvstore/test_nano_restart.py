"""A sequence of the bundled model that is saved, forgotten and read again answers with the same bits."""

import numpy as np
import pytest

from fakes.kv_files import read_file, tool_map
from fakes.packed_files import read_packed
from kvstore.folder import StoreBench
from oracle.engines import model_at, run
from oracle.fixtures import ROOT
from whitedwarf.kvstore.header import Reason
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


@pytest.mark.parametrize("kind", PayloadKind)
@pytest.mark.parametrize("length", [3, 128, 513])
def test_a_reader_made_from_the_sheets_finds_the_model_s_state(bench: StoreBench, kind, length):
    model = model_at(NANO, kv_cache="packed", quality=False)
    ids, state = np.random.default_rng(length).integers(0, 4096, length).astype(np.int32), model.new_state()
    logits = run(model, state, [ids])[-1]
    arrays = [list(layer) for layer in ARRAYS[kind](model).of(state.snapshot())]
    store = bench.open(layout=layout_of(model), budget_bytes=1 << 30)
    text, tools = b"said <A> " * length, {"call_a": b"<A>"}
    name = store.save(text, Payload(ids, logits, arrays, kind), Reason.EVICT, tools=tools)

    data, ratios = (bench.folder / f"{name}.kv").read_bytes(), model.config.hp.compress_ratios
    trailer = tool_map((b"call_a", b"<A>"))
    assert data.endswith(trailer)
    if kind is PayloadKind.DS4:
        found = read_file(data, ratios)
    else:
        found = read_packed(data[52 + len(text) : -len(trailer)], ratios)
    assert np.array_equal(found["ids"], ids)
    assert np.array_equal(found["logits"], logits)
    for theirs, ours in zip(found["layers"], arrays, strict=True):
        assert [array.tobytes() for array in theirs] == [array.tobytes() for array in ours]
