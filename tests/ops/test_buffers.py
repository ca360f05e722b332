"""Memory that is used again: never while somebody holds it, and no more of it than was needed at once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.ops.buffers import ALIGNMENT, SMALLEST_BYTES, Buffers

ROWS = SMALLEST_BYTES // 4 // 64
ROW_BYTES = 4 * 64


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_when_nobody_holds_it():
    buffers = Buffers()
    first = buffers.floats(ROWS, 64)
    place = address(first)
    second = buffers.floats(ROWS, 64)
    assert address(second) != place
    assert place % ALIGNMENT == address(second) % ALIGNMENT == 0
    del first
    assert address(buffers.floats(64, ROWS)) == place


def test_a_view_holds_its_memory():
    buffers = Buffers()
    view = buffers.floats(ROWS, 64).reshape(64, ROWS)[3:5].T
    assert not np.shares_memory(buffers.floats(ROWS, 64), view)


def test_a_larger_block_takes_the_place_of_a_free_one():
    buffers = Buffers()
    for rows in (ROWS, 2 * ROWS, 4 * ROWS):
        buffers.floats(rows, 64)
    assert buffers.size_bytes == 4 * ROWS * ROW_BYTES + ALIGNMENT


def test_small_arrays_are_nobodys_business():
    buffers = Buffers()
    assert buffers.floats(3, 5).shape == (3, 5)
    assert buffers.size_bytes == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(ROWS, 3 * ROWS)), max_size=40))
def test_whoever_holds_an_array_keeps_its_values(steps):
    buffers, held = Buffers(), []
    for value, (is_release, rows) in enumerate(steps):
        if is_release and held:
            held.pop(value % len(held))
        else:
            array = buffers.floats(rows, 64)
            array[:] = value
            held.append((array, value))
        for array, expected in held:
            assert array[0, 0] == array[-1, -1] == expected
