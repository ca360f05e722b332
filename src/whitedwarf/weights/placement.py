"""Where a model lies: on one card, in layers over several, or with its routed experts in host memory. Pure arithmetic.

Decided before anything is loaded, from a file's header and the memory there is: the whole model on the card with the
most room, else on as few cards as hold it, else all but the experts on the cards, with as many experts as fit beside.
What cannot be is refused with the numbers, and with what would help. Memory that card and host share counts once.
Knows no device library; what the cards have is told to it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from whitedwarf.errors import OutOfMemoryError
from whitedwarf.gguf.inspect import size_text
from whitedwarf.weights.model_bytes import ModelBytes

_MIB = 1 << 20
LEAST_RESERVE_BYTES = 512 * _MIB
LEAST_SHARED_RESERVE_BYTES = 2048 * _MIB
RESERVE_SHARE = 32  # one part in so many of a card stays free: libraries, graphs, what lies between allocations
STAGED_EXPERTS = 4  # on their way into slots
_CONTEXT_STEP = 256
_LAYER = re.compile(r"blk\.(\d+)\.")


class Mode(StrEnum):
    """How a model is laid out."""

    WHOLE = "whole"  # on one card
    LAYERS = "layers"  # every card has some of the layers
    HOST_EXPERTS = "experts in host memory"


@dataclass(frozen=True, slots=True)
class Card:
    """A device as found. `budget_bytes`: what the user allows, instead of all that is free but a reserve."""

    device: str  # cuda:0
    name: str
    total_bytes: int
    free_bytes: int
    shares_host_memory: bool = False
    budget_bytes: int | None = None

    def usable_bytes(self, host_bytes: int) -> int:
        """What a model may take of it; of shared memory no more than the host has to give."""
        if self.budget_bytes is not None:
            return min(self.budget_bytes, self.free_bytes)
        least = LEAST_SHARED_RESERVE_BYTES if self.shares_host_memory else LEAST_RESERVE_BYTES
        free_bytes = min(self.free_bytes, host_bytes) if self.shares_host_memory else self.free_bytes
        return max(0, free_bytes - max(least, self.total_bytes // RESERVE_SHARE))


@dataclass(frozen=True, slots=True)
class Wants:
    """What there must be room for. Of `context_bytes` there is one number for each layer: one sequence, full.

    `window_bytes` of all of them do not depend on the context's length.
    """

    model: ModelBytes
    context_bytes: tuple[int, ...]
    context_length: int
    scratch_bytes: int  # of a chunk, on every card
    num_experts_used: int
    parallel: int = 1
    window_bytes: int = 0
    prefix_bytes: int = 0  # of earlier contexts that are kept, with their layers


@dataclass(frozen=True, slots=True)
class Slots:
    """Room for so many experts of this size."""

    expert_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Share:
    """What lies on one card: layers first_layer .. end_layer - 1. Without `slots`, with all their experts."""

    device: str
    name: str
    first_layer: int
    end_layer: int
    dense_bytes: int
    experts_bytes: int  # those that lie here, or their slots
    context_bytes: int
    scratch_bytes: int
    usable_bytes: int
    slots: tuple[Slots, ...] = ()

    @property
    def used_bytes(self) -> int:
        return self.dense_bytes + self.experts_bytes + self.context_bytes + self.scratch_bytes

    @property
    def num_slots(self) -> int:
        return sum(slots.count for slots in self.slots)


@dataclass(frozen=True, slots=True)
class Placement:
    """The decision. `host_bytes`: of experts that only host memory has room for all of."""

    mode: Mode
    shares: tuple[Share, ...]
    host_bytes: int = 0
    num_experts: int = 0  # in all layers
    warnings: tuple[str, ...] = ()

    def device(self, layer: int) -> str:
        """The card of a layer; what comes before the first is with the first, what comes after the last with it."""
        share = next((share for share in self.shares if layer < share.end_layer), self.shares[-1])
        return share.device


def layer_of(name: str, last_layer: int) -> int:
    """The layer with which a tensor lies: its own; the first for the embedding, the last for all that comes behind."""
    found = _LAYER.match(name)
    if found is None:
        return 0 if name.startswith("token_embd") else last_layer
    return min(int(found[1]), last_layer)


def place(wants: Wants, cards: Sequence[Card], host_bytes: int, *, streams: bool = False) -> Placement:
    """Decide. OutOfMemoryError says what is short by how much, and what to do. There must be a card.

    `streams`: experts come from a disk, and host memory need not hold all of them.
    """
    if not cards:
        raise ValueError("expected a card to place a model on, got none")
    rooms = [_Room(card, card.usable_bytes(host_bytes)) for card in cards]
    whole = _all_on_cards(wants, rooms)
    if whole is not None:
        return whole
    if any(card.shares_host_memory for card in cards):
        raise OutOfMemoryError(_shared_refusal(wants, rooms))
    beside = _experts_beside(wants, rooms, None if streams else host_bytes)
    if beside is None:
        raise OutOfMemoryError(_refusal(wants, rooms))
    return beside


@dataclass(frozen=True, slots=True)
class _Room:
    card: Card
    usable_bytes: int


def _all_on_cards(wants: Wants, rooms: Sequence[_Room]) -> Placement | None:
    """With all experts, on as few cards as hold them."""
    layers = wants.model.layers
    loads = [layer.dense_bytes + layer.experts_bytes for layer in layers]
    for count in range(1, min(len(rooms), len(layers)) + 1):
        chosen = _roomiest(rooms, count)
        cuts = _cuts(wants, loads, chosen)
        shares = tuple(_share(wants, room, *cut) for room, cut in zip(chosen, cuts, strict=True))
        if all(share.used_bytes <= share.usable_bytes for share in shares):
            mode = Mode.WHOLE if count == 1 else Mode.LAYERS
            return Placement(mode, shares, warnings=_about_parallel(wants, shares))
    return None


def _experts_beside(wants: Wants, rooms: Sequence[_Room], host_bytes: int | None) -> Placement | None:
    """Without the experts, on as many cards as can have a part; what is left of them holds experts."""
    model = wants.model
    loads = [layer.dense_bytes + layer.experts_bytes for layer in model.layers]
    for count in range(min(len(rooms), len(model.layers)), 0, -1):
        chosen = _roomiest(rooms, count)
        cuts = _cuts(wants, loads, chosen)
        shares = [_slotted(wants, room, *cut) for room, cut in zip(chosen, cuts, strict=True)]
        if all(shares):
            placed = tuple(share for share in shares if share is not None)
            num_experts = sum(layer.num_experts for layer in model.layers)
            warnings = (*_about_parallel(wants, placed), *_about_host(model.experts_bytes, host_bytes))
            return Placement(Mode.HOST_EXPERTS, placed, model.experts_bytes, num_experts, warnings)
    return None


def _roomiest(rooms: Sequence[_Room], count: int) -> list[_Room]:
    """So many cards, those with the most room, in their own order."""
    order = sorted(range(len(rooms)), key=lambda index: (-rooms[index].usable_bytes, index))
    return [rooms[index] for index in sorted(order[:count])]


def _cuts(wants: Wants, loads: Sequence[int], rooms: Sequence[_Room]) -> list[tuple[int, int]]:
    """Contiguous layers for each card, so that the fullest one is as little full as can be."""
    num_layers, num_cards = len(loads), len(rooms)
    ends = [0]
    for load, context_bytes in zip(loads, wants.context_bytes, strict=True):
        ends.append(ends[-1] + load + context_bytes + wants.prefix_bytes // num_layers)

    def fullness(card: int, first: int, end: int) -> float:
        load = ends[end] - ends[first] + wants.scratch_bytes + _ends_bytes(wants.model, first, end)
        return load / max(1, rooms[card].usable_bytes)

    best = {(0, 0): (0.0, 0)}  # (cards, layers before) -> fullest so far, where the last card begins
    for card in range(num_cards):
        for end in range(card + 1, num_layers - (num_cards - card - 1) + 1):
            firsts = range(card, end) if card else (0,)
            best[card + 1, end] = min(
                (max(best[card, first][0], fullness(card, first, end)), first) for first in firsts
            )
    cuts, end = [], num_layers
    for card in range(num_cards, 0, -1):
        first = best[card, end][1]
        cuts.append((first, end))
        end = first
    return cuts[::-1]


def _ends_bytes(model: ModelBytes, first: int, end: int) -> int:
    return model.first_bytes * (first == 0) + model.last_bytes * (end == len(model.layers))


def _share(wants: Wants, room: _Room, first: int, end: int) -> Share:
    """With all experts of these layers."""
    layers = wants.model.layers[first:end]
    return Share(
        device=room.card.device,
        name=room.card.name,
        first_layer=first,
        end_layer=end,
        dense_bytes=sum(layer.dense_bytes for layer in layers) + _ends_bytes(wants.model, first, end),
        experts_bytes=sum(layer.experts_bytes for layer in layers),
        context_bytes=sum(wants.context_bytes[first:end]),
        scratch_bytes=wants.scratch_bytes + wants.prefix_bytes * (end - first) // len(wants.model.layers),
        usable_bytes=room.usable_bytes,
    )


def _slotted(wants: Wants, room: _Room, first: int, end: int) -> Share | None:
    """With slots for experts in what is left; None where not even those that one token uses fit."""
    full = _share(wants, room, first, end)
    pools = _pool_bytes(wants.model, first, end)
    staging_bytes = STAGED_EXPERTS * max(pools)
    left_bytes = full.usable_bytes - (full.used_bytes - full.experts_bytes) - staging_bytes
    slots = _slots(pools, left_bytes, wants.num_experts_used)
    if slots is None:
        return None
    return Share(
        device=full.device,
        name=full.name,
        first_layer=first,
        end_layer=end,
        dense_bytes=full.dense_bytes,
        experts_bytes=sum(pool.expert_bytes * pool.count for pool in slots),
        context_bytes=full.context_bytes,
        scratch_bytes=full.scratch_bytes + staging_bytes,
        usable_bytes=full.usable_bytes,
        slots=slots,
    )


def _pool_bytes(model: ModelBytes, first: int, end: int) -> Mapping[int, int]:
    """Size of an expert -> bytes of all experts of this size."""
    pools: dict[int, int] = {}
    for layer in model.layers[first:end]:
        pools[layer.expert_bytes] = pools.get(layer.expert_bytes, 0) + layer.experts_bytes
    return pools


def _slots(pools: Mapping[int, int], left_bytes: int, num_used: int) -> tuple[Slots, ...] | None:
    """What is left, shared out by the bytes of each size; at least what a token uses of each."""
    least_bytes = sum(num_used * size for size in pools)
    if left_bytes < least_bytes:
        return None
    spare_bytes, all_bytes = left_bytes - least_bytes, sum(pools.values())
    counts = {size: num_used + spare_bytes * total // all_bytes // size for size, total in pools.items()}
    return tuple(Slots(size, min(count, pools[size] // size)) for size, count in sorted(counts.items()))


def _about_parallel(wants: Wants, shares: Sequence[Share]) -> tuple[str, ...]:
    """A warning where not all contexts could be full at a time."""
    short = [share.used_bytes + (wants.parallel - 1) * share.context_bytes - share.usable_bytes for share in shares]
    if not short or max(short) <= 0 or wants.parallel == 1:
        return ()
    device = shares[short.index(max(short))].device
    return (
        f"{wants.parallel} requests whose contexts of {wants.context_length} tokens are all full need "
        f"{size_text(max(short))} more than {device} has: long ones side by side may run out of memory; a smaller "
        "--parallel or --ctx avoids that",
    )


def _about_host(experts_bytes: int, host_bytes: int | None) -> tuple[str, ...]:
    if host_bytes is None or experts_bytes <= host_bytes:
        return ()
    return (
        f"the experts ({size_text(experts_bytes)}) are more than host memory has to give ({size_text(host_bytes)}): "
        "they are read from disk again and again, which is slow; --ssd-streaming reads them better, a smaller "
        "quantisation avoids it",
    )


def _refusal(wants: Wants, rooms: Sequence[_Room]) -> str:
    """Why not even the rest of the model fits beside a few experts: told of all cards together."""
    model, usable_bytes = wants.model, sum(room.usable_bytes for room in rooms)
    least = _pool_bytes(model, 0, len(model.layers))
    experts_bytes = sum(wants.num_experts_used * size for size in least) + STAGED_EXPERTS * max(least)
    scratch_bytes, context_bytes = wants.scratch_bytes * len(rooms) + wants.prefix_bytes, sum(wants.context_bytes)
    needed_bytes = model.dense_bytes + experts_bytes + scratch_bytes + context_bytes
    told = (
        f"even with all experts in host memory the model needs {size_text(needed_bytes)}: "
        f"{size_text(model.dense_bytes)} of weights that every token uses, {size_text(context_bytes)} for a context of "
        f"{wants.context_length} tokens, {size_text(scratch_bytes)} of buffers and {size_text(experts_bytes)} for a "
        "few experts"
    )
    return f"{told}; {_short(needed_bytes, rooms, usable_bytes)}: {_remedies(wants, needed_bytes, usable_bytes)}"


def _shared_refusal(wants: Wants, rooms: Sequence[_Room]) -> str:
    model, usable_bytes = wants.model, sum(room.usable_bytes for room in rooms)
    scratch_bytes, context_bytes = wants.scratch_bytes * len(rooms) + wants.prefix_bytes, sum(wants.context_bytes)
    weights_bytes = model.dense_bytes + model.experts_bytes
    needed_bytes = weights_bytes + scratch_bytes + context_bytes
    told = (
        f"the model needs {size_text(needed_bytes)}: {size_text(weights_bytes)} of weights, "
        f"{size_text(context_bytes)} for a context of {wants.context_length} tokens and {size_text(scratch_bytes)} of "
        f"buffers, in memory that the card shares with the host"
    )
    return f"{told}; {_short(needed_bytes, rooms, usable_bytes)}: {_remedies(wants, needed_bytes, usable_bytes)}"


def _short(needed_bytes: int, rooms: Sequence[_Room], usable_bytes: int) -> str:
    cards = " and ".join(f"{room.card.device} ({room.card.name}) has {size_text(room.usable_bytes)}" for room in rooms)
    missing_bytes = needed_bytes - usable_bytes
    if missing_bytes <= 0:
        return f"{cards} to give, but no cut between layers fits"
    return f"{cards} to give, {size_text(missing_bytes)} too little"


def _remedies(wants: Wants, needed_bytes: int, usable_bytes: int) -> str:
    others = "use a smaller quantisation, or --cpu, which reads weights where they lie in the file"
    context_bytes = sum(wants.context_bytes)
    room_bytes = usable_bytes - (needed_bytes - context_bytes) - wants.window_bytes
    length = room_bytes * wants.context_length // max(1, context_bytes - wants.window_bytes)
    length -= length % _CONTEXT_STEP
    return f"use --ctx {length} or less; or {others}" if 0 < length < wants.context_length else others
