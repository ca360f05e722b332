"""A placement in words: one line when a model starts, a few for `whitedwarf doctor`."""

from collections.abc import Iterator

from whitedwarf.gguf.inspect import size_text
from whitedwarf.weights.placement import Mode, Placement, Share


def placement_line(placement: Placement) -> str:
    """What lies where, in one line."""
    shares = placement.shares
    match placement.mode:
        case Mode.WHOLE:
            return f"whole model on {_named(shares[0])}: {_parts(shares[0])}"
        case Mode.LAYERS:
            told = ", ".join(f"{share.device} {_layers(share)} ({_filled(share)})" for share in shares)
            return f"layers over {len(shares)} cards: {told}"
        case Mode.HOST_EXPERTS:
            slots = sum(share.num_slots for share in shares)
            bytes_there = sum(share.experts_bytes for share in shares)
            where = " and ".join(f"{share.device} ({_filled(share)})" for share in shares)
            return (
                f"{size_text(placement.host_bytes)} of experts in host memory; all else on {where} with slots for "
                f"{slots} of {placement.num_experts} experts ({size_text(bytes_there)})"
            )


def placement_lines(placement: Placement) -> Iterator[str]:
    """What lies where, card by card, and what to mind."""
    yield placement_line(placement)
    if placement.mode is not Mode.WHOLE:
        yield from (f"{_named(share)}: layers {_layers(share)}, {_parts(share)}" for share in placement.shares)
    yield from placement.warnings


def _named(share: Share) -> str:
    return f"{share.device} ({share.name})"


def _layers(share: Share) -> str:
    return f"{share.first_layer}-{share.end_layer - 1}"


def _filled(share: Share) -> str:
    return f"{size_text(share.used_bytes)} of {size_text(share.usable_bytes)}"


def _parts(share: Share) -> str:
    experts = f"{share.num_slots} experts" if share.slots else "experts"
    return (
        f"{size_text(share.dense_bytes)} of weights, {size_text(share.experts_bytes)} of {experts}, "
        f"{size_text(share.context_bytes)} of context and {size_text(share.scratch_bytes)} of buffers, {_filled(share)}"
    )
