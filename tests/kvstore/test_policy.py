"""When prefixes are saved, used and dropped (product.md B.18, H.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.policy import (
    HIT_HALF_LIFE_S,
    Entry,
    Incoming,
    Limits,
    after_hit,
    chat_anchor,
    cold_boundary,
    decayed_hits,
    eviction_score,
    fits,
    is_continued_point,
    lookup_order,
    victims,
)

USER, ASSISTANT = 1, 2
DEFAULT = Limits()


def entry(name="a", **fields) -> Entry:
    values = {
        "text_bytes": 100,
        "num_tokens": 1000,
        "context_length": 4096,
        "quant_bits": 2,
        "reason": Reason.UNKNOWN,
        "hits": 0,
        "last_used": 0,
        "file_bytes": 1000,
    }
    return Entry(name=name, **(values | fields))


@pytest.mark.parametrize(
    ("num_tokens", "saved"),
    [
        (511, None),
        (512, 512),
        (2079, 2079),
        (2080, 2048),
        (4127, 2048),
        (4128, 4096),
        (11709, 10240),
        (30000, 28672),
        (30001, None),
    ],
)
def test_a_cold_prompt_is_saved_at_the_trimmed_and_aligned_boundary(num_tokens, saved):
    assert cold_boundary(num_tokens, None, DEFAULT) == saved


def test_an_anchor_goes_before_the_boundary():
    assert cold_boundary(11709, 900, DEFAULT) == 900
    assert cold_boundary(11709, 511, DEFAULT) == 10240
    assert cold_boundary(30001, 900, DEFAULT) is None


def test_no_cold_save_when_switched_off():
    assert cold_boundary(5000, 900, Limits(cold_max_tokens=0)) is None


@given(num_tokens=st.integers(0, 40_000), trim=st.integers(0, 5000), align=st.integers(0, 5000))
def test_the_boundary_is_never_outside_the_prompt(num_tokens, trim, align):
    limits = Limits(boundary_trim_tokens=trim, boundary_align_tokens=align)
    saved = cold_boundary(num_tokens, None, limits)
    assert saved is None or limits.min_tokens <= saved <= num_tokens


def test_the_anchor_is_the_last_user_marker_before_the_first_answer():
    ids = [0] * 600 + [USER] + [5] * 20 + [USER] + [6] * 9 + [ASSISTANT, 7, USER, 8, ASSISTANT]
    assert chat_anchor(ids, USER, ASSISTANT, 512) == 621
    assert chat_anchor(ids, USER, ASSISTANT, 700) is None
    assert chat_anchor([0] * 600 + [ASSISTANT, USER], USER, ASSISTANT, 512) is None
    assert chat_anchor([], USER, ASSISTANT, 512) is None


def test_continued_saves_come_at_multiples_of_the_rounded_interval():
    assert DEFAULT.continued_step == 10240
    points = [n for n in range(512, 50_000) if is_continued_point(n, 0, DEFAULT)]
    assert points == [10240, 20480, 30720, 40960]
    assert not is_continued_point(20480, 20480, DEFAULT)
    assert not is_continued_point(10240, 0, Limits(continued_interval_tokens=0))


def test_wrong_limits_are_refused_by_the_name_of_their_flag():
    with pytest.raises(UsageError, match="--kv-cache-cold-max-tokens"):
        Limits(cold_max_tokens=100)
    with pytest.raises(UsageError, match="--kv-cache-boundary-trim-tokens must be 0 or more, not -1"):
        Limits(boundary_trim_tokens=-1)


def test_hits_fade_with_a_half_life_of_six_hours_and_are_forgotten():
    assert decayed_hits(4, HIT_HALF_LIFE_S) == 2
    assert decayed_hits(1, 6 * HIT_HALF_LIFE_S) == 1 / 64
    assert decayed_hits(1, 7 * HIT_HALF_LIFE_S) == 0
    assert decayed_hits(3, -50) == 3  # the clock was set back


def test_a_file_is_worth_its_tokens_per_byte_times_its_hits():
    assert eviction_score(entry(num_tokens=1000, file_bytes=500), 0) == 2
    assert eviction_score(entry(hits=3), 0) == 4
    assert eviction_score(entry(hits=4), HIT_HALF_LIFE_S) == 3


@pytest.mark.parametrize("reason", [Reason.COLD, Reason.EVICT, Reason.SHUTDOWN])
def test_anchors_are_worth_twice_as_much(reason):
    assert eviction_score(entry(reason=reason), 0) == 2


def test_a_continued_file_that_the_incoming_one_covers_is_worth_little():
    incoming = Incoming(10, 4096, {"a"})
    assert eviction_score(entry(reason=Reason.CONTINUED), 0, incoming) == pytest.approx(0.05)
    assert eviction_score(entry(reason=Reason.CONTINUED, hits=1), 0, incoming) == pytest.approx(2 * 0.275)
    assert eviction_score(entry(reason=Reason.CONTINUED, context_length=4095), 0, incoming) == 1
    assert eviction_score(entry("b", reason=Reason.CONTINUED), 0, incoming) == 1
    assert eviction_score(entry(reason=Reason.COLD), 0, incoming) == 2


def names(entries) -> list[str]:
    return [one.name for one in entries]


def test_the_worst_goes_first_and_of_equals_the_one_used_longest_ago():
    held = [entry("new", last_used=9), entry("old", last_used=1), entry("good", num_tokens=5000)]
    assert names(victims(held, 3000, 9)) == []
    assert names(victims(held, 2999, 9)) == ["old"]
    assert names(victims(held, 1000, 9)) == ["old", "new"]


def test_room_is_made_for_the_incoming_file_and_its_headroom():
    held = [entry("a"), entry("b", last_used=5)]
    assert names(victims(held, 3000, 9, Incoming(990, 4096))) == []
    assert names(victims(held, 3000, 9, Incoming(1000, 4096))) == ["a"]


def test_a_file_beyond_the_budget_evicts_nothing():
    assert victims([entry()], 3000, 9, Incoming(2971, 4096)) == []
    assert not fits(2971, 3000)
    assert fits(2970, 3000)


def test_what_is_needed_next_is_spared_as_long_as_others_are_there():
    held = [entry("needed"), entry("better", num_tokens=9000)]
    assert names(victims(held, 1500, 9, spared=["needed"])) == ["better"]
    assert names(victims(held, 500, 9, spared=["needed"])) == ["better", "needed"]
    assert names(victims(held, 1500, 9, spared=["needed", "better"])) == ["needed"]


def test_the_longest_text_is_tried_first_then_the_one_with_more_tokens():
    held = [entry("short", text_bytes=10), entry("long", text_bytes=90), entry("other", text_bytes=90)]
    found = {10: "short", 90: "long"}
    assert names(lookup_order(held, found, 4096, None, 512)) == ["long", "short"]


@pytest.mark.parametrize("fields", [{"num_tokens": 511}, {"context_length": 4097}, {"quant_bits": 4}])
def test_files_that_do_not_fit_the_session_are_not_tried(fields):
    assert lookup_order([entry(**fields)], {100: "a"}, 4096, 2, 512) == []
    assert names(lookup_order([entry(quant_bits=4)], {100: "a"}, 4096, None, 512)) == ["a"]


def test_a_hit_consumes_what_is_too_long_to_be_saved_cold():
    assert after_hit(30_001, DEFAULT) == "consume"
    assert after_hit(30_000, DEFAULT) == "bump"
    assert after_hit(90_000, Limits(cold_max_tokens=0)) == "bump"
