"""Memory for slots: within the budget, locked as far as may be, and told where it is not."""

import errno

import hypothesis.strategies as st
import pytest
from hypothesis import given

from whitedwarf.errors import OutOfMemoryError
from whitedwarf.weights.locked_memory import STEP_BYTES, AnonymousMemory, OsLocking, Refusal
from whitedwarf.weights.slot_memory import PoolShape, allocated, slots_of_number, slots_within

PAGE = 4096
shapes = st.lists(
    st.builds(PoolShape, st.integers(1, 50).map(lambda pages: pages * PAGE), st.integers(1, 60)),
    min_size=1,
    max_size=3,
    unique_by=lambda pool: pool.slot_bytes,
)


class Locks:
    """A system that locks so many bytes, and then refuses."""

    def __init__(self, most_bytes: int, error: int = errno.ENOMEM, limit_bytes: int | None = None) -> None:
        self.most_bytes, self.error, self.limit_bytes = most_bytes, error, limit_bytes
        self.locked_bytes = 0

    def lock(self, address: int, size_bytes: int) -> int:
        assert address % PAGE == 0
        if self.locked_bytes + size_bytes > self.most_bytes:
            return self.error
        self.locked_bytes += size_bytes
        return 0

    def unlock(self, address: int, size_bytes: int) -> None:
        self.locked_bytes = max(0, self.locked_bytes - size_bytes)

    def room_bytes(self) -> int | None:
        return None if self.limit_bytes is None else self.limit_bytes - self.locked_bytes


@given(shapes, st.integers(0, 10_000_000))
def test_slots_stay_within_any_budget_and_use_it(pools: list[PoolShape], budget: int) -> None:
    if budget < sum(pool.slot_bytes for pool in pools):
        with pytest.raises(OutOfMemoryError, match="at least one expert"):
            slots_within(pools, budget)
        return
    counts = slots_within(pools, budget)
    used = sum(size * count for size, count in counts.items())
    assert used <= budget
    assert all(1 <= counts[pool.slot_bytes] <= pool.num_experts for pool in pools)
    more = [pool.slot_bytes for pool in pools if counts[pool.slot_bytes] < pool.num_experts]
    assert all(used + size > budget for size in more)


@given(shapes, st.integers(1, 250))
def test_a_number_of_slots_is_shared_out(pools: list[PoolShape], number: int) -> None:
    counts = slots_of_number(pools, number)
    everybody = sum(pool.num_experts for pool in pools)
    assert sum(counts.values()) == max(len(pools), min(number, everybody))
    assert all(1 <= counts[pool.slot_bytes] <= pool.num_experts for pool in pools)


@given(shapes, st.integers(0, 10_000_000))
def test_slots_do_not_overlap(pools: list[PoolShape], budget: int) -> None:
    counts = slots_within(pools, budget + sum(pool.slot_bytes for pool in pools))
    memory = allocated(pools, counts, None)
    assert memory.size_bytes == sum(size * count for size, count in counts.items())
    for slots in memory.pools.values():
        for number, slot in enumerate(slots):
            slot[:2] = number.to_bytes(2, "little")
        assert [int.from_bytes(slot[:2], "little") for slot in slots] == list(range(len(slots)))


BIG = [PoolShape(STEP_BYTES // 4, 40)]  # address space only: nothing of it is touched


def test_what_can_be_locked_is() -> None:
    memory = allocated(BIG, {BIG[0].slot_bytes: 40}, Locks(1 << 40))
    assert memory.locked_bytes == memory.size_bytes == 10 * STEP_BYTES
    assert memory.remark is None


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EAGAIN])
def test_where_memory_is_short_there_are_fewer_slots_and_all_are_locked(error: int) -> None:
    system = Locks(7 * STEP_BYTES, error)
    memory = allocated(BIG, {BIG[0].slot_bytes: 40}, system)
    assert memory.locked_bytes == system.locked_bytes >= memory.size_bytes > 5 * STEP_BYTES
    assert memory.size_bytes <= 7 * STEP_BYTES - 7 * STEP_BYTES // 8
    assert memory.remark is not None
    assert "was to be 2.50 GiB, but only 1.75 GiB could be locked" in memory.remark
    assert "--ssd-streaming-cache-experts 1GB" in memory.remark


def test_where_nothing_at_all_can_be_locked_it_is_an_error() -> None:
    with pytest.raises(OutOfMemoryError):
        allocated(BIG, {BIG[0].slot_bytes: 40}, Locks(0))


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EPERM])
def test_where_only_the_limit_of_the_process_stands_in_the_way_slots_are_pageable(error: int) -> None:
    memory = allocated(BIG, {BIG[0].slot_bytes: 40}, Locks(0, error, limit_bytes=8 << 20))
    assert memory.size_bytes == 10 * STEP_BYTES
    assert memory.locked_bytes == 0
    assert memory.remark is not None
    assert "(8192 KiB)" in memory.remark
    assert "ulimit -l" in memory.remark


def test_a_process_that_may_exceed_its_limit_meets_the_end_of_memory() -> None:
    memory = allocated(BIG, {BIG[0].slot_bytes: 40}, Locks(4 * STEP_BYTES, limit_bytes=8 << 20))
    assert memory.size_bytes <= 4 * STEP_BYTES


def test_a_system_that_locks_nothing_is_told() -> None:
    memory = allocated(BIG, {BIG[0].slot_bytes: 2}, Locks(0, errno.ENOSYS))
    assert memory.remark is not None
    assert "does not lock" in memory.remark
    assert len(memory.pools[BIG[0].slot_bytes]) == 2


def test_this_system_locks_or_says_why_not() -> None:
    memory = AnonymousMemory(3 * PAGE)
    memory.view(PAGE, 3)[:] = b"abc"
    outcome = memory.lock(OsLocking())
    assert (outcome.locked_bytes == memory.size_bytes) == (outcome.refusal is None)
    assert outcome.refusal in (None, Refusal.LIMIT, Refusal.UNSUPPORTED)
    assert bytes(memory.view(PAGE, 3)) == b"abc"
    memory.unlock(OsLocking())
