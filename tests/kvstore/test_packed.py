"""Our own payload: the bytes against its table, every reason not to load, and no change that goes unnoticed."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.kv_files import FakeFile, read_file
from fakes.packed_files import PackedFile, read_packed
from kvstore.folder import PACKED_LAYOUT, StoreBench, payload_of
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore import dsv4
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.packed import HEADER_BYTES, payload_bytes, read_ids, read_payload, size_bytes, write_payload
from whitedwarf.kvstore.payload import Layout, Payload, PayloadKind

LENGTHS = (1, 3, 4, 5, 7, 8, 127, 128, 129, 256, 300, 599)


def written(payload: Payload) -> bytes:
    return b"".join(write_payload(payload, PACKED_LAYOUT))


@pytest.mark.parametrize("n", LENGTHS)
def test_the_written_bytes_are_those_of_the_table(n):
    fake = PackedFile(n=n)
    assert written(payload_of(fake)) == fake.payload()
    assert payload_bytes(payload_of(fake), PACKED_LAYOUT) == len(fake.payload())


@pytest.mark.parametrize("n", LENGTHS)
def test_a_reader_made_from_the_table_finds_what_was_written(n):
    payload = payload_of(PackedFile(n=n))
    found = read_packed(written(payload))
    assert (found["magic"], found["version"], found["rows"]) == (b"WDKV", 1, (1, 11, 3))
    assert np.array_equal(found["ids"], payload.ids)
    assert np.array_equal(found["logits"], payload.logits)
    assert found["ratios"].tolist() == list(PACKED_LAYOUT.ratios)
    for theirs, ours in zip(found["layers"], payload.layers, strict=True):
        assert all(np.array_equal(a, b.reshape(-1)) for a, b in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("has_logits", [0, 1])
@pytest.mark.parametrize("n", LENGTHS)
def test_what_the_table_says_is_read(n, has_logits):
    fake = PackedFile(n=n, has_logits=has_logits)
    payload = read_payload(fake.payload(), PACKED_LAYOUT, "file")
    assert payload.kind is PayloadKind.PACKED
    assert payload.ids.tolist() == fake.tokens()
    assert (payload.logits is None) == (not has_logits)
    assert not has_logits or np.array_equal(payload.logits, fake.logits())
    for ours, theirs in zip(payload.layers, fake.arrays(), strict=True):
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, theirs, strict=True))


def test_without_logits_their_place_is_saved():
    with_logits = payload_of(PackedFile())
    without = replace(with_logits, logits=None)
    assert written(without) == PackedFile(has_logits=0).payload()
    assert len(written(with_logits)) - len(written(without)) == 4 * PACKED_LAYOUT.vocab_size


def test_flash_takes_a_third_of_the_other_format():
    """711 bytes a row and 68 a key, where f32 takes 2048 and 512."""
    flash = Layout((0, 0, *[4, 128] * 20, 4), 512, 128, 129280, 128, 32768, row_kind=1, row_bytes=711, key_bytes=68)
    n = 25_600
    ours, theirs = size_bytes(n, flash, has_logits=False), dsv4.size_bytes(n, flash)
    windows, frontiers = 43 * 128 * 711, 21 * 4 * 2 * (1024 + 256) * 4
    rows = 21 * (n // 4) * (711 + 68) + 20 * (n // 128) * 711
    assert ours == 48 + 4 * n + 4 * 43 + windows + frontiers + rows + 4
    assert theirs / ours > 3.2


REFUSALS = {
    "begins with b'DSV4'": {"payload_magic": b"DSV4"},
    "payload version 2 is not 1": {"version": 2},
    r"\(2, 11, 3\), here they are \(1, 11, 3\)": {"row_kind": 2},
    r"\(1, 12, 3\)": {"row_bytes": 12},
    r"\(1, 11, 4\)": {"key_bytes": 4},
    "no tokens": {"n": 0},
    "leave no room": {"n": 600},
    r"\(4, 8, 4, 20, 128\)": {"layers": 4},
    r"\(3, 9, 4, 20, 128\)": {"head": 9},
    r"\(3, 8, 5, 20, 128\)": {"index_head": 5},
    r"\(3, 8, 4, 21, 128\)": {"vocab": 21},
    r"\(3, 8, 4, 20, 64\)": {"window": 64},
    "whether there are logits is 2": {"has_logits": 2},
    r"compress by \(0, 4, 4\)": {"ratios": (0, 4, 4)},
    "outside the vocabulary": {"first_token": 20},
    "checksum": {"checksum": 7},
    "4 bytes follow the end": {"payload_tail": b"\0\0\0\0"},
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_payload_that_cannot_be_continued_is_refused_with_its_own_message(message):
    with pytest.raises(FileFormatError, match=message):
        read_payload(PackedFile(**REFUSALS[message]).payload(), PACKED_LAYOUT, "file")


def test_a_payload_cut_anywhere_is_refused():
    data = PackedFile().payload()
    for length in range(len(data)):
        with pytest.raises(FileFormatError):
            read_payload(data[:length], PACKED_LAYOUT, "file")


@settings(max_examples=300)
@given(place=st.integers(0), bit=st.integers(0, 7))
def test_no_changed_bit_goes_unnoticed(place, bit):
    data = bytearray(PackedFile(n=130).payload())
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(FileFormatError):
        read_payload(bytes(data), PACKED_LAYOUT, "file")


@settings(max_examples=200)
@given(at=st.integers(0, 11), value=st.integers(0, 2**32 - 1))
def test_no_number_in_the_header_costs_memory_or_another_error(at, value):
    data = bytearray(PackedFile().payload())
    data[4 * at : 4 * at + 4] = value.to_bytes(4, "little")
    with contextlib.suppress(FileFormatError):
        read_payload(bytes(data), PACKED_LAYOUT, "file")
    with contextlib.suppress(FileFormatError):
        read_ids(bytes(data), "file")


def test_the_tokens_are_read_from_its_beginning():
    fake = PackedFile(n=130)
    start = fake.payload()[: HEADER_BYTES + 4 * 130]
    assert read_ids(start, "file").tolist() == fake.tokens()
    for damaged in (start[:-1], start[:20], b"DSV4" + start[4:], start[:4] + b"\x02" + start[5:]):
        with pytest.raises(FileFormatError):
            read_ids(damaged, "file")


def test_arrays_of_another_shape_are_not_written():
    good = payload_of(PackedFile(n=9))
    for bad in (
        replace(good, ids=good.ids[:-1]),
        replace(good, logits=good.logits[:-1]),
        replace(good, layers=(good.layers[0], good.layers[2], good.layers[1])),
        replace(good, layers=tuple(payload_of(FakeFile(n=9)).layers)),
    ):
        with pytest.raises(ValueError, match="the layout says"):
            written(bad)


def test_a_reader_of_ds4_refuses_the_file_at_its_header_and_at_its_payload(bench: StoreBench):
    """One that knows byte 20 takes only 2 there; an older one, which does not look, expects DSV4 in the payload."""
    store = bench.open(layout=PACKED_LAYOUT)
    name = store.save(b"text", payload_of(PackedFile()), Reason.COLD)
    data = (bench.folder / f"{name}.kv").read_bytes()
    assert data[:4] == b"KVC\x01"
    assert data[20] not in (0, 2)
    assert data[52 + len(b"text") :][:4] != b"DSV4"
    with KvFile(bench.folder / f"{name}.kv") as file, pytest.raises(FileFormatError, match="magic"):
        dsv4.read_payload(file.payload(), PACKED_LAYOUT, name)


def test_both_kinds_lie_in_one_folder_and_the_longest_text_is_found(bench: StoreBench):
    store = bench.open(layout=PACKED_LAYOUT)
    kinds = {b"a": FakeFile, b"ab": PackedFile, b"abc": FakeFile, b"abcd": PackedFile}
    for text, kind in kinds.items():
        store.save(text, payload_of(kind(n=9)), Reason.COLD)
    again = bench.open(layout=PACKED_LAYOUT)
    for length, kind in ((4, PayloadKind.PACKED), (3, PayloadKind.DS4), (2, PayloadKind.PACKED), (1, PayloadKind.DS4)):
        hit = again.take(b"abcde"[:length] + b"x")
        assert (hit.text_bytes, hit.payload.kind) == (length, kind)
        assert hit.payload.ids.tolist() == FakeFile(n=9).tokens()
        [*_, entry] = again.candidates(b"abcde"[:length])
        assert again.ids(entry).tolist() == FakeFile(n=9).tokens()


def test_a_text_that_is_there_in_the_other_kind_is_not_written_again(bench: StoreBench):
    store = bench.open(layout=PACKED_LAYOUT)
    name = store.save(b"text", payload_of(FakeFile(n=9)), Reason.COLD)
    before = read_file((bench.folder / f"{name}.kv").read_bytes())["dsv4"]
    store.save(b"text", payload_of(PackedFile(n=9)), Reason.SHUTDOWN)
    assert read_file((bench.folder / f"{name}.kv").read_bytes())["dsv4"] == before


def test_a_packed_file_of_rows_of_another_kind_is_skipped(bench: StoreBench):
    bench.put(PackedFile(row_kind=2, ours=b"\x02\0\0"))
    assert bench.open(layout=PACKED_LAYOUT).take(PackedFile().text) is None
    assert "rows of kind 2" in bench.lines[-1]
    bench.put(PackedFile(row_kind=2, ours=b"\0\0\0"))  # where the header does not say
    assert bench.open(layout=PACKED_LAYOUT).take(PackedFile().text) is None
    assert "kind of rows" in bench.lines[-1]
