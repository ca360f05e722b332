"""A plan to stream experts in words: lines when a model starts, lines for `whitedwarf doctor`."""

from collections.abc import Iterator

from whitedwarf.gguf.inspect import size_text
from whitedwarf.weights.streaming_budget import StreamingPlan

NEEDLESS = "the whole model fits into memory: without --ssd-streaming it is at least as fast"


def streaming_line(plan: StreamingPlan) -> str:
    """How many experts stay in memory, beside what."""
    wants = plan.wants
    sizes = sorted({kind.expert_bytes for kind in wants.kinds})
    each = " or ".join(size_text(size) for size in sizes)
    beside = (
        f"{size_text(wants.dense_bytes)} of other weights stay there, {size_text(wants.own_bytes)} are for contexts "
        "and buffers, "
    )
    return (
        f"{plan.num_cached} of {wants.num_experts} experts ({plan.share:.1%}) in {size_text(plan.cached_bytes)} of "
        f"memory, {each} each; {beside if wants.beside_bytes else ''}{size_text(plan.planned_bytes)} of "
        f"{size_text(plan.usable_bytes)} in all"
    )


def streaming_lines(plan: StreamingPlan) -> Iterator[str]:
    """The same with what to mind."""
    yield f"with --ssd-streaming: {streaming_line(plan)}"
    yield from plan.warnings
