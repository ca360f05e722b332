"""Streams survive the way from one process to the next: exactly in 32 bits, closely in 16 and 8."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from whitedwarf.cluster.boundary import ALL_BITS, LARGEST_F16, decode, encode, size_bytes

shapes = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 40))
any_floats = arrays.arrays(np.float32, shapes, elements=st.floats(width=32))
sizes = st.floats(-6e4, 6e4, width=32)
usual_floats = arrays.arrays(np.float32, shapes, elements=sizes)


@given(any_floats)
def test_32_bits_are_the_very_numbers(streams):
    assert decode(encode(streams, 32), streams.shape, 32).tobytes() == streams.tobytes()


@given(usual_floats)
def test_16_bits_are_half_precision(streams):
    decoded = decode(encode(streams, 16), streams.shape, 16)
    assert decoded.tobytes() == streams.astype(np.float16).astype(np.float32).tobytes()


@given(usual_floats)
def test_8_bits_are_within_a_sixteenth_of_a_number_or_a_small_part_of_the_rows_largest(streams):
    decoded = decode(encode(streams, 8), streams.shape, 8)
    largest = np.abs(streams).max(axis=2, keepdims=True)
    assert (np.abs(decoded - streams) <= np.abs(streams) / 16 + largest * 2.0**-18 + 1e-30).all()


@given(any_floats, st.sampled_from(ALL_BITS))
def test_any_numbers_have_the_size_that_was_said_and_come_back_as_numbers(streams, bits):
    data = encode(streams, bits)
    assert len(data) == size_bytes(streams.shape, bits)
    decoded = decode(data, streams.shape, bits)
    assert (np.isnan(decoded) == np.isnan(streams)).all()


@given(usual_floats)
def test_a_rows_neighbours_change_nothing_in_8_bits(streams):
    whole = decode(encode(streams, 8), streams.shape, 8)
    for row in range(len(streams)):
        alone = streams[row : row + 1]
        assert decode(encode(alone, 8), alone.shape, 8).tobytes() == whole[row : row + 1].tobytes()


def test_what_is_too_large_for_16_bits_becomes_the_largest_there_is():
    streams = np.array([[[1e9, -1e9, 1.0]]], np.float32)
    assert decode(encode(streams, 16), streams.shape, 16).tolist() == [[[LARGEST_F16, -LARGEST_F16, 1.0]]]


@settings(max_examples=5)
@given(st.sampled_from(ALL_BITS))
def test_what_was_decoded_may_be_written_to(bits):
    streams = np.ones((2, 4, 8), np.float32)
    read_only = np.frombuffer(encode(streams, bits).tobytes(), np.uint8)
    decode(read_only, streams.shape, bits)[:] = 2
    assert (streams == 1).all()


def test_other_sizes_and_bits_are_refused():
    streams = np.ones((2, 4, 8), np.float32)
    with pytest.raises(ValueError, match="expected 256 bytes"):
        decode(encode(streams, 16), streams.shape, 32)
    with pytest.raises(ValueError, match="32, 16 or 8"):
        encode(streams, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="32, 16 or 8"):
        decode(encode(streams, 32), streams.shape, 4)  # type: ignore[arg-type]
