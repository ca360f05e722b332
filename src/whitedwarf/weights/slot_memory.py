"""Memory for slots of several sizes within one budget, locked as far as the system lets it.

Promises that the slots together, whole pages, never exceed the budget; and that where memory cannot be locked because
there is not so much of it, there are fewer slots instead of pageable ones. Where only the limit of this process stands
in the way (RLIMIT_MEMLOCK), or the system locks nothing, they are all there and pageable, and the remark says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whitedwarf.errors import OutOfMemoryError
from whitedwarf.weights.locked_memory import AnonymousMemory, Locking, LockSystem, Refusal

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class PoolShape:
    """Slots of one size: of how many experts they could be asked for, at most."""

    slot_bytes: int
    num_experts: int


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """The slots of each pool, and what is to be told about them."""

    pools: Mapping[int, tuple[memoryview, ...]]  # slot_bytes -> slots
    locked_bytes: int
    remark: str | None = None

    @property
    def size_bytes(self) -> int:
        return sum(slot_bytes * len(slots) for slot_bytes, slots in self.pools.items())


def slots_within(pools: Sequence[PoolShape], budget_bytes: int) -> dict[int, int]:
    """slot_bytes -> how many: shared out by what all experts of each size need; at least one each.

    OutOfMemoryError where the budget is less than that. What rounding leaves goes to the largest slots that still fit.
    """
    least_bytes = sum(pool.slot_bytes for pool in pools)
    if budget_bytes < least_bytes:
        raise OutOfMemoryError(
            f"expected memory for at least one expert ({least_bytes} bytes), got a budget of {budget_bytes} bytes; "
            "give --ssd-streaming-cache-experts more"
        )
    whole_bytes = sum(pool.slot_bytes * pool.num_experts for pool in pools)
    spare_bytes = min(budget_bytes, whole_bytes) - least_bytes
    counts, left_bytes = {}, spare_bytes
    for pool in pools:
        more = spare_bytes * pool.num_experts // whole_bytes if whole_bytes else 0
        more = min(more, pool.num_experts - 1)
        counts[pool.slot_bytes] = 1 + more
        left_bytes -= more * pool.slot_bytes
    for pool in sorted(pools, key=lambda pool: -pool.slot_bytes):
        more = min(left_bytes // pool.slot_bytes, pool.num_experts - counts[pool.slot_bytes])
        counts[pool.slot_bytes] += more
        left_bytes -= more * pool.slot_bytes
    return counts


def slots_of_number(pools: Sequence[PoolShape], number: int) -> dict[int, int]:
    """slot_bytes -> how many: `number` of them, shared out by the experts of each size; at least one each."""
    everybody = sum(pool.num_experts for pool in pools)
    counts, left = {}, max(min(number, everybody), len(pools))
    for place, pool in enumerate(pools):
        later = len(pools) - place - 1
        count = left if not later else round(left * pool.num_experts / everybody)
        counts[pool.slot_bytes] = max(1, min(count, pool.num_experts, left - later))
        left -= counts[pool.slot_bytes]
        everybody -= pool.num_experts
    return counts


def allocated(pools: Sequence[PoolShape], counts: Mapping[int, int], locking: LockSystem | None) -> SlotMemory:
    """Slots as counted, or fewer where memory is short; `locking` None leaves them pageable."""
    memory, outcome = _memory(counts), None
    if locking is None:
        return SlotMemory(_slots(memory, counts), 0)
    asked_bytes = sum(slot_bytes * count for slot_bytes, count in counts.items())
    remark = None
    while (outcome := _locked(memory, locking)).refusal is not None:
        if outcome.refusal is not Refusal.MEMORY:
            return SlotMemory(_slots(memory, counts), outcome.locked_bytes, _pageable_remark(outcome))
        for part in memory.values():
            part.unlock(locking)
        budget_bytes = outcome.locked_bytes - min(_GIB, outcome.locked_bytes // 8)
        del memory  # before the next attempt
        counts = slots_within(pools, budget_bytes)
        memory = _memory(counts)
        remark = _less_remark(asked_bytes, outcome, sum(size * count for size, count in counts.items()))
    return SlotMemory(_slots(memory, counts), outcome.locked_bytes, remark)


def _memory(counts: Mapping[int, int]) -> dict[int, AnonymousMemory]:
    return {slot_bytes: AnonymousMemory(slot_bytes * count) for slot_bytes, count in counts.items()}


def _slots(memory: Mapping[int, AnonymousMemory], counts: Mapping[int, int]) -> dict[int, tuple[memoryview, ...]]:
    return {
        slot_bytes: tuple(memory[slot_bytes].view(number * slot_bytes, slot_bytes) for number in range(count))
        for slot_bytes, count in counts.items()
    }


def _locked(memory: Mapping[int, AnonymousMemory], system: LockSystem) -> Locking:
    """All of it, or as far as it went."""
    asked_bytes = sum(part.size_bytes for part in memory.values())
    locked_bytes = 0
    for part in memory.values():
        outcome = part.lock(system)
        locked_bytes += outcome.locked_bytes
        if outcome.refusal is not None:
            return Locking(asked_bytes, locked_bytes, outcome.refusal, outcome.room_bytes)
    return Locking(asked_bytes, locked_bytes)


def _pageable_remark(outcome: Locking) -> str:
    if outcome.refusal is Refusal.UNSUPPORTED:
        return "this system does not lock memory: the cache of experts may be paged out while memory is short"
    limit = "" if outcome.room_bytes is None else f" ({outcome.room_bytes >> 10} KiB)"
    return (
        f"of the cache of experts ({_gib(outcome.asked_bytes)}), {_gib(outcome.locked_bytes)} are locked in memory: "
        f"the limit of this process{limit} allows no more. The rest may be paged out; raise it with `ulimit -l` or "
        "LimitMEMLOCK="
    )


def _less_remark(asked_bytes: int, outcome: Locking, kept_bytes: int) -> str:
    suggested = max(1, kept_bytes // _GIB)
    return (
        f"the cache of experts was to be {_gib(asked_bytes)}, but only {_gib(outcome.locked_bytes)} could be locked in "
        f"memory and {_gib(asked_bytes - outcome.locked_bytes)} could not: it has {_gib(kept_bytes)} now. "
        f"Give --ssd-streaming-cache-experts {suggested}GB to begin with that"
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.2f} GiB"
