"""One number says what a sequence has consumed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.cluster.history import BASIS, History, Trail, rolled

ids = st.lists(st.integers(0, 200_000), max_size=40).map(lambda found: np.array(found, np.int32))


def plain_hash(tokens, value=BASIS):
    """The definition, byte by byte."""
    for byte in np.asarray(tokens, "<u4").tobytes():
        value = ((value ^ byte) * 1099511628211) % 2**64
    return value


@given(ids, ids)
def test_it_is_the_hash_of_all_bytes_however_they_came(first, second):
    assert rolled(rolled(BASIS, first), second) == plain_hash([*first, *second])


@given(ids, ids, st.integers(0, 16))
def test_a_trail_goes_back_to_where_it_was(first, second, room):
    before = Trail(room).advanced(first)
    after = before.advanced(second)
    assert (after.position, after.last) == (len(first) + len(second), plain_hash([*first, *second]))
    if len(second) <= room:
        back = after.back(len(second))
        assert (back.position, back.last) == (before.position, before.last)
    else:
        with pytest.raises(ValueError, match="can go back at most"):
            after.back(len(second))


@given(ids, ids, ids)
def test_beginnings_that_are_shared_never_change(first, second, third):
    history = History.of(first)
    beginning = history.shared()
    history.extend(second)
    other = beginning.shared()
    other.extend(third)
    history.cut(len(first))
    history.extend(third)
    assert beginning.ids.tolist() == first.tolist()
    assert history.ids.tolist() == other.ids.tolist() == [*first, *third]
    assert history.last_hash == other.last_hash == plain_hash([*first, *third])
    assert history.hash_at(len(first)) == beginning.last_hash == plain_hash(first)
