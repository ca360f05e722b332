"""Which member of a cluster gets which layers. Pure arithmetic over what the members say of themselves.

Promises: layers that a member was given by hand stay its own, others get what fits into their memory and is in their
file; the slowest member of the line is as fast as it can be, for that is the pace of a long prompt, and among equal
lines the one is taken through which a token is soonest. The first member is the coordinator: it has layer 0. Members
keep their order, and one that would only slow the line gets nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from whitedwarf.errors import ClusterError

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SplitMember:
    """What a member says of itself. `speed`: layers a second, measured; only its ratio to others counts."""

    name: str
    memory_bytes: int
    speed: float
    present: range  # the layers that are in its file
    wanted: range | None = None  # given by hand


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Bytes of each layer with what it remembers of all contexts; of what is before the first and behind the last."""

    layers: tuple[int, ...]
    first_bytes: int = 0
    last_bytes: int = 0

    def of(self, layers: range) -> int:
        ends = self.first_bytes * (layers.start == 0) + self.last_bytes * (layers.stop == len(self.layers))
        return sum(self.layers[layers.start : layers.stop]) + ends


@dataclass(frozen=True, slots=True)
class Share:
    """One member's part."""

    name: str
    layers: range


@dataclass(frozen=True, slots=True)
class _Line:
    """Shares of the layers up to some layer; the smaller `cost` is the better line."""

    cost: tuple[float, float] = (0.0, 0.0)  # seconds of the slowest member, and of all together
    shares: tuple[Share, ...] = ()

    def then(self, member: SplitMember, layers: range) -> "_Line":
        seconds = len(layers) / max(member.speed, 1e-9)
        cost = max(self.cost[0], seconds), self.cost[1] + seconds
        return _Line(cost, (*self.shares, Share(member.name, layers)))


def split(sizes: LayerSizes, members: Sequence[SplitMember]) -> tuple[Share, ...]:
    """All layers, in order. ClusterError tells overlaps, and which layers lack and why."""
    num_layers = len(sizes.layers)
    fixed = _checked(members, num_layers)
    free = [member for member in members if member.wanted is None]
    # The best line to each layer, by how many of the free members it has asked.
    best: list[dict[int, _Line]] = [{} for _ in range(num_layers + 1)]
    best[0][0] = _Line()
    for layer in range(num_layers):
        for asked, line in best[layer].items():
            for end, now_asked, longer in _continued(line, layer, asked, fixed, free, sizes, members[0]):
                known = best[end].get(now_asked)
                if known is None or longer.cost < known.cost:
                    best[end][now_asked] = longer
    if not best[num_layers]:
        raise ClusterError(_shortage(best, fixed, free, sizes))
    return min(best[num_layers].values(), key=lambda line: line.cost).shares


def missing_layers(held: Sequence[range], num_layers: int) -> list[range]:
    """Runs of layers that are in none of these."""
    gaps, at = [], 0
    for layers in sorted(held, key=lambda one: one.start):
        if layers.start > at:
            gaps.append(range(at, layers.start))
        at = max(at, layers.stop)
    return [*gaps, range(at, num_layers)] if at < num_layers else gaps


def layers_text(layers: range) -> str:
    """For people: the last one is named, too."""
    last = layers.stop - 1
    return f"layer {last}" if len(layers) == 1 else f"layers {layers.start} to {last}"


def _continued(
    line: _Line,
    layer: int,
    asked: int,
    fixed: dict[int, SplitMember],
    free: Sequence[SplitMember],
    sizes: LayerSizes,
    coordinator: SplitMember,
) -> Iterator[tuple[int, int, _Line]]:
    """Every way on from `layer`: up to where, how many free members were asked then, and the line."""
    if layer in fixed:
        member = fixed[layer]
        assert member.wanted is not None
        yield member.wanted.stop, asked, line.then(member, member.wanted)
        return
    limit = min((start for start in fixed if start > layer), default=len(sizes.layers))
    for place in range(asked, len(free)):
        member = free[place]
        if layer == 0 and member is not coordinator:
            continue
        for end in range(layer + 1, limit + 1):
            layers = range(layer, end)
            if not _fits(member, layers, sizes):
                break
            yield end, place + 1, line.then(member, layers)


def _fits(member: SplitMember, layers: range, sizes: LayerSizes) -> bool:
    is_present = layers.start >= member.present.start and layers.stop <= member.present.stop
    return is_present and sizes.of(layers) <= member.memory_bytes


def _checked(members: Sequence[SplitMember], num_layers: int) -> dict[int, SplitMember]:
    """The members with layers of their own, by the first of these."""
    fixed = sorted((one for one in members if one.wanted is not None), key=lambda one: _wanted(one).start)
    for member in fixed:
        wanted = _wanted(member)
        if not 0 <= wanted.start < wanted.stop <= num_layers:
            raise ClusterError(f"{member.name} was given {layers_text(wanted)}, the model has 0 to {num_layers - 1}")
        if wanted.start < member.present.start or wanted.stop > member.present.stop:
            present = layers_text(member.present) if len(member.present) else "no whole layer"
            raise ClusterError(f"{member.name} was given {layers_text(wanted)}, but its file has {present}")
    for before, after in pairwise(fixed):
        if _wanted(before).stop > _wanted(after).start:
            raise ClusterError(
                f"{before.name} was given {layers_text(_wanted(before))} and {after.name} "
                f"{layers_text(_wanted(after))}: give each layer to one of them"
            )
    first = members[0]
    if first.wanted is not None and first.wanted.start != 0:
        raise ClusterError(f"the coordinator has layer 0, but it was given {layers_text(first.wanted)}")
    return {_wanted(member).start: member for member in fixed}


def _wanted(member: SplitMember) -> range:
    assert member.wanted is not None
    return member.wanted


def _shortage(
    best: Sequence[dict[int, _Line]], fixed: dict[int, SplitMember], free: Sequence[SplitMember], sizes: LayerSizes
) -> str:
    """Why there is no line: up to where one goes, and what there would have to be."""
    reached = max(layer for layer, lines in enumerate(best) if lines)
    limit = min((start for start in fixed if start > reached), default=len(sizes.layers))
    lacking = range(reached, limit)
    what = f"{layers_text(lacking)} of {len(sizes.layers)} lack ({sizes.of(lacking) / _GIB:.1f} GiB)"
    if not free:
        return f"{what}: no member is free to take them; start one more with `whitedwarf cluster join`"
    rooms = ", ".join(f"{one.name} {one.memory_bytes / _GIB:.1f} GiB" for one in free)
    return (
        f"{what}: the members that may take some have too little memory for them or not all of them in their files "
        f"({rooms}); start one more with `whitedwarf cluster join`, or use a smaller model or context"
    )
