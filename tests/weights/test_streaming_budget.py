"""How many experts are kept in memory: whole ones, what one token needs at least, and never more than there is."""

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from whitedwarf.errors import OutOfMemoryError, UsageError
from whitedwarf.weights.streaming_budget import CacheWish, ExpertKind, StreamingWants, plan_streaming
from whitedwarf.weights.streaming_text import streaming_line, streaming_lines

MIB, GIB = 1 << 20, 1 << 30
FLASH = StreamingWants((ExpertKind(7 * MIB, 7 * MIB, 43 * 256),), 6, 6 * GIB, 2 * GIB, 32_768)

kinds = st.lists(
    st.builds(
        lambda size, padding, count: ExpertKind(size, size + padding, count),
        st.integers(1, 100 * MIB),
        st.integers(0, 3 * 8192),
        st.integers(1, 12_000),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda kind: kind.expert_bytes,
)
wanted = st.builds(
    lambda kinds, used, dense, own: StreamingWants(tuple(kinds), used, dense, own),
    kinds,
    st.integers(1, 8),
    st.integers(0, 20 * GIB),
    st.integers(0, 4 * GIB),
)
wishes = st.none() | st.builds(CacheWish, st.integers(1, 20_000)) | st.builds(CacheWish, st.none(), st.integers(1, GIB))


def test_experts_get_80_percent_less_all_else() -> None:
    plan = plan_streaming(FLASH, 32 * GIB)
    room = 32 * GIB * 80 // 100 - 8 * GIB
    assert plan.num_cached == room // (7 * MIB)
    assert plan.cached_bytes == plan.num_cached * 7 * MIB <= room
    assert plan.warnings == ()
    assert not plan.is_needless


def test_no_more_are_kept_than_there_are() -> None:
    plan = plan_streaming(FLASH, 512 * GIB)
    assert (plan.num_cached, plan.share, plan.is_needless) == (43 * 256, 1.0, True)


def test_where_all_else_takes_the_target_one_tokens_experts_are_kept_and_it_is_said() -> None:
    plan = plan_streaming(FLASH, 9 * GIB)
    assert plan.num_cached == 6
    assert len(plan.warnings) == 1
    assert "8.00 GiB" in plan.warnings[0]
    assert "slow" in plan.warnings[0]


def test_too_little_for_one_token_is_refused_with_numbers_and_a_remedy() -> None:
    with pytest.raises(OutOfMemoryError, match=r"6\.00 GiB of weights.*7\.00 GiB are available: use a smaller --ctx"):
        plan_streaming(FLASH, 7 * GIB)
    with pytest.raises(OutOfMemoryError, match="smaller quantisation"):
        plan_streaming(FLASH, 5 * GIB)
    forced = plan_streaming(FLASH, 5 * GIB, force=True)
    assert forced.num_cached == 6
    assert "--force" in forced.warnings[0]


def test_a_number_that_was_asked_for_is_kept_exactly() -> None:
    assert plan_streaming(FLASH, 32 * GIB, CacheWish(num_experts=100)).num_cached == 100
    assert plan_streaming(FLASH, 32 * GIB, CacheWish(size_bytes=GIB)).num_cached == GIB // (7 * MIB)


@pytest.mark.parametrize("wish", [CacheWish(num_experts=11_000), CacheWish(size_bytes=70 * GIB)])
def test_a_wish_beyond_memory_is_capped_and_it_is_said(wish: CacheWish) -> None:
    plan = plan_streaming(FLASH, 32 * GIB, wish)
    assert plan.num_cached == (32 * GIB * 90 // 100 - 8 * GIB) // (7 * MIB)
    assert "more than fit" in plan.warnings[0]


def test_a_wish_below_what_a_token_needs_is_raised_and_it_is_said() -> None:
    plan = plan_streaming(FLASH, 32 * GIB, CacheWish(num_experts=1))
    assert plan.num_cached == 6
    assert "fewer than a token uses" in plan.warnings[0]
    with pytest.raises(UsageError, match="hold no expert"):
        plan_streaming(FLASH, 32 * GIB, CacheWish(size_bytes=MIB))


def test_experts_of_two_sizes_share_the_memory_by_what_all_of_them_would_take() -> None:
    kinds = ExpertKind(7 * MIB, 7 * MIB, 40 * 256), ExpertKind(14 * MIB, 14 * MIB, 3 * 256)
    plan = plan_streaming(StreamingWants(kinds, 6, GIB, GIB), 32 * GIB)
    small, large = (slots.count for slots in plan.slots)
    assert 12 < small / large < 14.5
    assert plan.cached_bytes == small * 7 * MIB + large * 14 * MIB


def test_the_line_has_the_numbers_that_matter() -> None:
    plan = plan_streaming(FLASH, 32 * GIB)
    line = streaming_line(plan)
    for number in (str(plan.num_cached), "11008", "7.00 MiB each", "6.00 GiB of other weights", "of 32.00 GiB in all"):
        assert number in line
    assert list(streaming_lines(plan)) == [f"with --ssd-streaming: {line}"]


@given(wanted, st.integers(1, 200 * GIB), wishes)
def test_any_plan_keeps_what_a_token_needs_and_stays_within_memory(
    wants: StreamingWants, usable: int, wish: CacheWish | None
) -> None:
    try:
        plan = plan_streaming(wants, usable, wish)
    except OutOfMemoryError:
        assert wants.beside_bytes + wants.slots_bytes(wants.least) > usable
        return
    except UsageError:
        assume(False)
    assert plan.planned_bytes <= usable
    for slots, kind, least in zip(plan.slots, wants.kinds, wants.least, strict=True):
        assert least <= slots.count <= kind.count
    if wish is not None and wish.num_experts is not None:
        assert plan.num_cached <= max(wish.num_experts, sum(wants.least))
        if not plan.warnings:
            assert plan.num_cached == min(wish.num_experts, wants.num_experts)
