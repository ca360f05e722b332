"""How many routed experts of a model that is streamed from a disk are kept in memory. Pure arithmetic.

Decided before anything is loaded, from a file's header and the memory that can really be had: 80 % of it, less the
weights that every token uses, every context, the buffers of a chunk and beginnings of prompts. What is left holds whole
experts: no fewer than one token needs in one layer, no more than there are. A number that was asked for is taken as far
as there is memory for it. What cannot be is refused with the numbers, and with what would help.

Knows no file and no machine. Memory for an expert is told apart from its bytes: its slot has room for whole blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.errors import OutOfMemoryError, UsageError
from whitedwarf.gguf.inspect import size_text
from whitedwarf.weights.placement import Slots

TARGET_PERCENT = 80  # of what can be had: the rest is for libraries, tokenizer, and whoever else is here
MOST_PERCENT = 90  # the same where a number was asked for


@dataclass(frozen=True, slots=True)
class ExpertKind:
    """All experts of one size: bytes of one in the file, of the slot that it would have, and how many there are."""

    expert_bytes: int
    slot_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class CacheWish:
    """What the user asked for: so many experts, or so much memory. Neither: as the arithmetic has it."""

    num_experts: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StreamingWants:
    """What there must be room for. `own_bytes`: of contexts, buffers and beginnings of prompts, all of them full."""

    kinds: tuple[ExpertKind, ...]
    num_experts_used: int  # of a token, in a layer
    dense_bytes: int  # weights that stay in memory
    own_bytes: int
    context_length: int = 0

    @property
    def num_experts(self) -> int:
        return sum(kind.count for kind in self.kinds)

    @property
    def experts_bytes(self) -> int:
        return sum(kind.expert_bytes * kind.count for kind in self.kinds)

    @property
    def beside_bytes(self) -> int:
        """All that is not an expert."""
        return self.dense_bytes + self.own_bytes

    @property
    def least(self) -> tuple[int, ...]:
        """How many experts of each kind a token needs at a time."""
        return tuple(min(kind.count, self.num_experts_used) for kind in self.kinds)

    def slots_bytes(self, counts: Sequence[int]) -> int:
        """Memory for so many experts of each kind."""
        return sum(count * kind.slot_bytes for count, kind in zip(counts, self.kinds, strict=True))


@dataclass(frozen=True, slots=True)
class StreamingPlan:
    """The decision: slots of each size of expert, smallest first."""

    wants: StreamingWants
    usable_bytes: int  # memory that could be had when it was asked
    slots: tuple[Slots, ...]
    cached_bytes: int  # of memory for them
    warnings: tuple[str, ...] = ()

    @property
    def num_cached(self) -> int:
        return sum(slots.count for slots in self.slots)

    @property
    def share(self) -> float:
        """Of all experts."""
        return self.num_cached / self.wants.num_experts

    @property
    def planned_bytes(self) -> int:
        """What the process will take for the model, when every context is full."""
        return self.wants.beside_bytes + self.cached_bytes

    @property
    def is_needless(self) -> bool:
        """Whether the whole model would fit as well."""
        return self.wants.beside_bytes + self.wants.experts_bytes <= self.usable_bytes


def plan_streaming(
    wants: StreamingWants, usable_bytes: int, wish: CacheWish | None = None, *, force: bool = False
) -> StreamingPlan:
    """Decide. OutOfMemoryError where not even one token's experts fit, unless forced; UsageError for a wish that is
    less than an expert."""
    warnings = []
    least_bytes = wants.slots_bytes(wants.least)
    if wants.beside_bytes + least_bytes > usable_bytes:
        if not force:
            raise OutOfMemoryError(_refusal(wants, usable_bytes))
        warnings.append(f"{_shortage(wants, usable_bytes)}; going on because of --force")
    if wish is None or wish == CacheWish():
        room_bytes = usable_bytes * TARGET_PERCENT // 100 - wants.beside_bytes
        if room_bytes < least_bytes and not warnings:
            warnings.append(_tight(wants, usable_bytes))
        counts = _counts(wants, room_bytes)
    else:
        room_bytes = usable_bytes * MOST_PERCENT // 100 - wants.beside_bytes
        counts, told = _wished(wants, wish, room_bytes)
        warnings += told
    slots = (Slots(kind.expert_bytes, count) for kind, count in zip(wants.kinds, counts, strict=True))
    return StreamingPlan(wants, usable_bytes, tuple(slots), wants.slots_bytes(counts), tuple(warnings))


def _counts(wants: StreamingWants, room_bytes: int) -> tuple[int, ...]:
    """Whole experts of each kind in this room, by the memory that all of a kind would take."""
    spare_bytes = max(0, room_bytes - wants.slots_bytes(wants.least))
    all_bytes = sum(kind.slot_bytes * kind.count for kind in wants.kinds)
    return tuple(
        min(kind.count, least + spare_bytes * kind.count // all_bytes)
        for kind, least in zip(wants.kinds, wants.least, strict=True)
    )


def _wished(wants: StreamingWants, wish: CacheWish, room_bytes: int) -> tuple[tuple[int, ...], list[str]]:
    """What was asked for as far as there is room, and what has to be said about it."""
    asked_bytes, asked = _asked(wants, wish)
    least, most, warnings = wants.least, _counts(wants, room_bytes), list[str]()
    counts = _counts(wants, asked_bytes) if wish.num_experts is None else _split(wants, wish.num_experts)
    if sum(counts) > sum(most):
        counts = most
        warnings.append(
            f"{asked} are more than fit: {sum(most)} experts are kept, {size_text(wants.slots_bytes(most))}, in "
            f"{MOST_PERCENT} % of the memory there is less {size_text(wants.beside_bytes)} for all else"
        )
    elif (wish.num_experts is not None and wish.num_experts < sum(least)) or asked_bytes < wants.slots_bytes(least):
        warnings.append(f"{asked} are fewer than a token uses in a layer: {sum(counts)} are kept")
    return counts, warnings


def _asked(wants: StreamingWants, wish: CacheWish) -> tuple[int, str]:
    """In bytes, and in words."""
    smallest = min(kind.slot_bytes for kind in wants.kinds)
    if wish.num_experts is not None:
        return wants.slots_bytes(_split(wants, wish.num_experts)), f"--ssd-streaming-cache-experts {wish.num_experts}"
    assert wish.size_bytes is not None
    if wish.size_bytes < smallest:
        raise UsageError(
            f"--ssd-streaming-cache-experts: {size_text(wish.size_bytes)} hold no expert of this model, which takes "
            f"{size_text(smallest)}; give more"
        )
    return wish.size_bytes, f"--ssd-streaming-cache-experts with {size_text(wish.size_bytes)}"


def _split(wants: StreamingWants, num_experts: int) -> tuple[int, ...]:
    """A number of experts over the kinds, by how many of each there are."""
    left, counts = num_experts - sum(wants.least), list(wants.least)
    others = wants.num_experts - sum(wants.least)
    for index, kind in enumerate(wants.kinds):
        if left > 0 and others > 0:
            more = min(kind.count - counts[index], left * (kind.count - wants.least[index]) // others)
            counts[index] += more
    missing = min(num_experts, wants.num_experts) - sum(counts)
    for index, kind in enumerate(wants.kinds):  # what rounding left over
        more = max(0, min(kind.count - counts[index], missing))
        counts[index] += more
        missing -= more
    return tuple(counts)


def _tight(wants: StreamingWants, usable_bytes: int) -> str:
    return (
        f"what is not an expert takes {size_text(wants.beside_bytes)}, and {TARGET_PERCENT} % of the memory there is "
        f"({size_text(usable_bytes)}) leave no room beside it: only {sum(wants.least)} experts are kept, which is slow"
    )


def _shortage(wants: StreamingWants, usable_bytes: int) -> str:
    least_bytes = wants.slots_bytes(wants.least)
    context = f" for contexts of {wants.context_length} tokens" if wants.context_length else ""
    return (
        f"even with its experts streamed the model needs {size_text(wants.beside_bytes + least_bytes)}: "
        f"{size_text(wants.dense_bytes)} of weights that every token uses, {size_text(wants.own_bytes)}{context} and "
        f"buffers, {size_text(least_bytes)} for the experts of one token; {size_text(usable_bytes)} are available"
    )


def _refusal(wants: StreamingWants, usable_bytes: int) -> str:
    needed_bytes = wants.beside_bytes + wants.slots_bytes(wants.least)
    if needed_bytes - wants.own_bytes < usable_bytes:
        remedy = "use a smaller --ctx, --parallel, --kv-ram-mb or --prefill-chunk, or stop other programs"
    else:
        remedy = "stop other programs or raise this container's limit, or use a smaller quantisation"
    return f"{_shortage(wants, usable_bytes)}: {remedy}; --force tries anyway"
