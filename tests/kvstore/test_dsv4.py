"""DSV4: the bytes against the sheet, and every reason not to load with a message of its own."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.kv_files import FakeFile
from kvstore.folder import LAYOUT, payload_of
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.dsv4 import read_payload, size_bytes, write_payload
from whitedwarf.kvstore.payload import Layout, Payload

LENGTHS = (1, 3, 4, 5, 127, 128, 129, 256, 300, 599)


def written(payload: Payload, layout: Layout = LAYOUT) -> bytes:
    return b"".join(write_payload(payload, layout))


@pytest.mark.parametrize("n", LENGTHS)
def test_the_written_bytes_are_those_of_the_sheet(n):
    ours = FakeFile(n=n, version=2, chunk=0, raw_cap=128)
    assert written(payload_of(ours)) == ours.payload()
    assert size_bytes(n, LAYOUT) == len(ours.payload())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("n", LENGTHS)
def test_what_the_sheet_says_is_read(n, version):
    fake = FakeFile(n=n, version=version)
    payload = read_payload(fake.payload(), LAYOUT, "file")
    assert payload.ids.tolist() == fake.tokens()
    assert np.array_equal(payload.logits, fake.logits())
    for ours, theirs in zip(payload.layers, fake.arrays(), strict=True):
        assert all(np.array_equal(a, b) and a.dtype == np.float32 for a, b in zip(ours, theirs, strict=True))


def test_the_size_of_flash_is_the_one_in_the_sheet():
    flash = Layout((0, 0, *[4, 128] * 20, 4), 512, 128, 129280, 128, 32768)
    fixed = 52 + 517120 + 8 * 43
    n = 1024
    frontiers = 21 * (2 * 8 * 1024 + 2 * 8 * 256) * 4 + 20 * 2 * 128 * 512 * 4
    rows = 43 * 128 * 2048 + 21 * (n // 4) * (512 + 128) * 4 + 20 * (n // 128) * 2048
    assert size_bytes(n, flash) == fixed + 4 * n + frontiers + rows


REFUSALS = {
    "magic": {"payload_magic": b"DSVL"},
    "payload version 3": {"version": 3},
    "saved with context 601": {"context": 601},
    "no tokens": {"n": 0},
    "leave no room": {"n": 600},
    "layers, head, index head and vocabulary": {"layers": 4},
    r"\(3, 9, 4, 20\)": {"head": 9},
    r"\(3, 8, 5, 20\)": {"index_head": 5},
    r"\(3, 8, 4, 21\)": {"vocab": 21},
    "window is 64 rows": {"window": 64},
    "no capacity": {"raw_cap": 0},
    "do not fit its ring of 8": {"raw_cap": 8},
    "8 live raw rows, expected 9": {"live": 8},
    "capacity for 153": {"comp_cap": 153},
    "its capacity is 1": {"comp_cap": 1},
    "layer 1 has 3 compressed rows, expected 2": {"counts": [0, 3, 0]},
    "layer 0 has 1 compressed rows": {"counts": [1, 2, 0]},
    "layer 2 has 1 index rows, expected 0": {"index_counts": [0, 2, 1]},
    "outside the vocabulary": {"first_token": 20},
    "4 bytes follow the end": {"payload_tail": b"\0\0\0\0"},
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_payload_that_cannot_be_continued_is_refused_with_its_own_message(message):
    with pytest.raises(FileFormatError, match=message):
        read_payload(FakeFile(**REFUSALS[message]).payload(), LAYOUT, "file")


def test_only_version_1_insists_on_its_prefill_chunk():
    layout = replace(LAYOUT, prefill_chunk=64)
    read_payload(FakeFile(version=2, chunk=77).payload(), layout, "file")
    read_payload(FakeFile(version=1, chunk=64).payload(), layout, "file")
    with pytest.raises(FileFormatError, match="prefill chunk 77"):
        read_payload(FakeFile(version=1, chunk=77).payload(), layout, "file")


def test_a_payload_cut_anywhere_is_refused():
    data = FakeFile().payload()
    for length in [*range(300), *range(300, len(data), 97), len(data) - 1]:
        with pytest.raises(FileFormatError):
            read_payload(data[:length], LAYOUT, "file")


@settings(max_examples=200)
@given(at=st.integers(0, 12), value=st.integers(0, 2**32 - 1))
def test_no_number_in_the_header_costs_memory_or_another_error(at, value):
    data = bytearray(FakeFile().payload())
    data[4 * at : 4 * at + 4] = value.to_bytes(4, "little")
    with contextlib.suppress(FileFormatError):
        read_payload(bytes(data), LAYOUT, "file")


def test_a_session_of_a_smaller_context_is_taken_over():
    small = FakeFile(n=9, context=100, window=100, raw_cap=100, comp_cap=27)
    assert read_payload(small.payload(), LAYOUT, "file").num_tokens == 9


def test_arrays_of_another_shape_are_not_written():
    good = payload_of(FakeFile(n=9))
    for bad in (
        Payload(good.ids[:-1], good.logits, good.layers),
        Payload(good.ids, good.logits[:-1], good.layers),
        Payload(good.ids, good.logits, (good.layers[0], good.layers[2], good.layers[1])),
    ):
        with pytest.raises(ValueError, match="the layout says"):
            written(bad)
    with pytest.raises(ValueError, match="shorter"):
        written(Payload(good.ids, good.logits, good.layers[:2]))
