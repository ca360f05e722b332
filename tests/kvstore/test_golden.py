"""Files kept as bytes: nobody may change writer, reader and sheet-made fake together without being noticed."""

import hashlib

import numpy as np
import pytest

from fakes.kv_files import FakeFile, read_file, tool_map
from fakes.packed_files import PackedFile, read_packed
from kvstore.folder import PACKED_LAYOUT, payload_of
from oracle.fixtures import ROOT
from whitedwarf.kvstore.header import THINKING_VISIBLE, Reason

GOLDEN = ROOT / "tests" / "golden" / "kvstore"
TEXT = "你好 <A> ".encode()
OLD = FakeFile(text=TEXT, n=5, version=1, abi=0, reason=4, quant=4, hits=7)
OURS = FakeFile(
    text=TEXT,
    n=5,
    chunk=0,
    raw_cap=128,
    reason=2,
    hits=0,
    used=1_700_000_000,
    flags=5,
    trailer=tool_map((b"c", b"<A>")),
)
PACKED = PackedFile(text=TEXT, n=9, reason=2, hits=0, used=1_700_000_000, flags=1, trailer=tool_map((b"c", b"<A>")))
DIGESTS = {
    "packed.kv": "099a323b9adb81cd565ac508e0d38cbdd0d58c3391fa817a4f2df73a2075a910",
    "version-1.kv": "0b7f09d1f3314e9fd9c438993dade7709665993e81a5768ef7524ef62ffbd310",
    "version-2-tools.kv": "4138e81babeb87711c811343317c9781f07d77df48f3879e0589d3c676e44075",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_kept_files_are_the_ones_that_were_checked(name):
    assert hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest() == DIGESTS[name]


def test_the_fake_writer_still_writes_them():
    assert (GOLDEN / "version-1.kv").read_bytes() == OLD.to_bytes()
    assert (GOLDEN / "version-2-tools.kv").read_bytes() == OURS.to_bytes()
    assert (GOLDEN / "packed.kv").read_bytes() == PACKED.to_bytes()


def test_the_store_writes_ours(bench):
    bench.now = PACKED.created
    store = bench.open(layout=PACKED_LAYOUT)
    name = store.save(TEXT, payload_of(PACKED), Reason.CONTINUED, tools={"c": b"<A>"})
    assert (bench.folder / f"{name}.kv").read_bytes() == (GOLDEN / "packed.kv").read_bytes()


def test_the_store_writes_the_one_of_version_2(bench):
    bench.now = OURS.created
    store = bench.open()
    name = store.save(TEXT, payload_of(OURS), Reason.CONTINUED, flags=THINKING_VISIBLE, tools={"c": b"<A>"})
    assert (bench.folder / f"{name}.kv").read_bytes() == (GOLDEN / "version-2-tools.kv").read_bytes()


@pytest.mark.parametrize("name", DIGESTS)
def test_the_store_reads_them(bench, name):
    data = (GOLDEN / name).read_bytes()
    (bench.folder / f"{hashlib.sha1(TEXT).hexdigest()}.kv").write_bytes(data)
    hit = bench.open(layout=PACKED_LAYOUT).take(TEXT + b"more")
    found = read_packed(data[52 + len(TEXT) : -len(PACKED.trailer)]) if name == "packed.kv" else read_file(data)
    assert np.array_equal(hit.payload.ids, found["ids"])
    for ours, theirs in zip(hit.payload.layers, found["layers"], strict=True):
        assert all(np.array_equal(a.reshape(-1), b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("file", [OURS, PACKED], ids=["ds4", "packed"])
def test_no_changed_byte_upsets_the_store(bench, file):
    data, chance = file.to_bytes(), np.random.default_rng(3)
    path = bench.folder / f"{file.name}.kv"
    places = [*range(140), len(data) - 1, *chance.integers(140, len(data), 60)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(chance.integers(8))
        path.write_bytes(damaged)
        store = bench.open(layout=PACKED_LAYOUT)
        store.take(TEXT + b"more")
        store.tools({"c"})
        store.save(TEXT, payload_of(file), Reason.COLD, tools={"c": b"<A>"})
        assert store.take(TEXT) is not None
