"""Layers are dealt so that the line is fast, everything fits, and what was asked for stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.cluster.split import LayerSizes, Share, SplitMember, missing_layers, split
from whitedwarf.errors import ClusterError

WHOLE = range(43)
SIZES = LayerSizes((10,) * 43, first_bytes=5, last_bytes=5)


def member(name="a", memory=1000, speed=1.0, present=WHOLE, wanted=None):
    return SplitMember(name, memory, speed, present, wanted)


def lengths(shares):
    return [(share.name, len(share.layers)) for share in shares]


@st.composite
def clusters(draw):
    members = [
        member(f"m{i}", draw(st.integers(0, 400)), draw(st.sampled_from([0.5, 1.0, 3.0])))
        for i in range(draw(st.integers(1, 5)))
    ]
    start = draw(st.integers(1, 40))
    if draw(st.booleans()):
        members.append(member("hand", wanted=range(start, draw(st.integers(start + 1, 43)))))
    return members


@given(clusters())
def test_every_layer_is_somewhere_once_and_fits_or_the_error_says_which_lack(members):
    try:
        shares = split(SIZES, members)
    except ClusterError:
        with pytest.raises(ClusterError, match="lack"):
            split(SIZES, members)
        return
    assert [layer for share in shares for layer in share.layers] == list(WHOLE)
    assert shares[0].name == "m0"
    by_name = {one.name: one for one in members}
    for share in shares:
        one = by_name[share.name]
        assert share.layers == one.wanted or (one.wanted is None and SIZES.of(share.layers) <= one.memory_bytes)
    assert len({share.name for share in shares}) == len(shares)


def test_faster_members_get_more():
    assert lengths(split(SIZES, [member("a"), member("b", speed=3.0)])) == [("a", 10), ("b", 33)]


def test_small_memories_get_less():
    assert lengths(split(SIZES, [member("a"), member("b", memory=105), member("c", memory=105)])) == [
        ("a", 23),
        ("b", 10),
        ("c", 10),
    ]


def test_a_member_that_would_only_slow_the_line_gets_nothing():
    assert lengths(split(SIZES, [member("a", speed=100.0), member("b", speed=0.1)])) == [("a", 43)]


def test_what_was_given_by_hand_stays():
    members = [member("a", wanted=range(5)), member("b", memory=1, wanted=range(20, 43)), member("c"), member("d")]
    shares = split(SIZES, members)
    assert shares[0] == Share("a", range(5))
    assert shares[-1] == Share("b", range(20, 43))
    assert lengths(shares)[1:-1] == [("c", 15)]  # `b` is slower anyhow, and one member less is one hop less


def test_halves_of_a_model_are_used_for_their_own_layers():
    members = [member("a", present=range(31)), member("b", present=range(31, 43))]
    assert lengths(split(SIZES, members)) == [("a", 31), ("b", 12)]


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([member("a", wanted=range(20)), member("b", wanted=range(19, 43))], "a was given layers 0 to 19 and b"),
        ([member("a", wanted=range(20)), member("b", wanted=range(21, 43))], "layer 20 of 43 lack"),
        ([member("a", wanted=range(3, 43))], "the coordinator has layer 0"),
        ([member("a", wanted=range(44))], "the model has 0 to 42"),
        ([member("a", present=range(31), wanted=range(32))], "its file has layers 0 to 30"),
        ([member("a", present=range(0), wanted=range(32))], "no whole layer"),
        ([member("a", memory=100), member("b", memory=200)], "layers 29 to 42 of 43 lack"),
    ],
)
def test_what_cannot_be_is_told(members, told):
    with pytest.raises(ClusterError, match=told):
        split(SIZES, members)


def test_missing_layers_are_the_gaps():
    assert missing_layers([range(3, 5), range(2)], 7) == [range(2, 3), range(5, 7)]
    assert missing_layers([range(7)], 7) == []
