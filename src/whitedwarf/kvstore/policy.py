"""When a prefix is saved, which saved one is used, which one goes: decisions only (product.md B.18, H.7, H.8).

Pure functions of numbers: no files, no clock, no tokens' meaning.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from whitedwarf.errors import UsageError
from whitedwarf.kvstore.header import Reason

HIT_HALF_LIFE_S = 6 * 3600
FORGOTTEN_HITS = 0.01  # fewer, after decay, count as none
HEADROOM = 100  # a file must leave 1/100 of its own size free in the budget
ANCHOR_REASONS = (Reason.COLD, Reason.EVICT, Reason.SHUTDOWN)

AfterHit = Literal["consume", "bump"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The `--kv-cache-*` flags."""

    min_tokens: int = 512
    cold_max_tokens: int = 30_000  # 0: no cold saves
    continued_interval_tokens: int = 10_000  # 0: no continued saves
    boundary_trim_tokens: int = 32
    boundary_align_tokens: int = 2048

    def __post_init__(self) -> None:
        names = self.__slots__
        negative = [name for name in names if getattr(self, name) < 0]
        if negative:
            flag = negative[0].replace("_", "-")
            raise UsageError(f"--kv-cache-{flag} must be 0 or more, not {getattr(self, negative[0])}")
        if 0 < self.cold_max_tokens < self.min_tokens:
            raise UsageError(
                f"--kv-cache-cold-max-tokens must be 0 or at least --kv-cache-min-tokens ({self.min_tokens}), "
                f"not {self.cold_max_tokens}"
            )

    @property
    def continued_step(self) -> int:
        """The interval rounded up to the alignment; 0 = never."""
        return _round_up(self.continued_interval_tokens, max(1, self.boundary_align_tokens))


@dataclass(frozen=True, slots=True)
class Entry:
    """What the decisions look at in one file."""

    name: str  # SHA-1 of the key text, in hex
    text_bytes: int
    num_tokens: int
    context_length: int
    quant_bits: int
    reason: Reason
    hits: int
    last_used: int
    file_bytes: int
    has_tools: bool = False
    is_usable: bool = True  # False: of another model, or made under settings that exclude it here


@dataclass(frozen=True, slots=True)
class Incoming:
    """A file about to be written, and the names of saved texts that are proper prefixes of its own."""

    file_bytes: int
    context_length: int
    prefixes: Set[str] = frozenset()


def chat_anchor(ids: Sequence[int], user: int, assistant: int, min_tokens: int) -> int | None:
    """Where the last user message before the first answer begins, unless that is too early to be worth a file."""
    ids = list(ids)
    end = ids.index(assistant) if assistant in ids else len(ids)
    before = ids[:end][::-1]
    anchor = end - 1 - before.index(user) if user in before else -1
    return anchor if anchor >= max(1, min_tokens) else None


def is_saved_cold(num_tokens: int, limits: Limits) -> bool:
    """Whether a prompt of this length is saved at all before the answer."""
    return max(1, limits.min_tokens) <= num_tokens <= limits.cold_max_tokens


def cold_boundary(num_tokens: int, anchor: int | None, limits: Limits) -> int | None:
    """How much of a prompt that nothing was known of is saved before the answer; None = nothing of it."""
    if not is_saved_cold(num_tokens, limits):
        return None
    if anchor is not None and max(1, limits.min_tokens) <= anchor <= num_tokens:
        return anchor
    aligned = _round_down(num_tokens - limits.boundary_trim_tokens, max(1, limits.boundary_align_tokens))
    return aligned if aligned >= max(1, limits.min_tokens) else num_tokens


def is_continued_point(num_tokens: int, last_saved: int, limits: Limits) -> bool:
    """Whether a live sequence of this length is saved on its way."""
    step = limits.continued_step
    return step > 0 and num_tokens % step == 0 and num_tokens >= max(1, limits.min_tokens) and num_tokens > last_saved


def fits(file_bytes: int, budget_bytes: int) -> bool:
    """Whether a file may be written at all; one that may not evicts nothing."""
    return _room(file_bytes) <= budget_bytes


def decayed_hits(hits: int, age_s: float) -> float:
    left = hits * 2.0 ** (-max(0.0, age_s) / HIT_HALF_LIFE_S)
    return 0.0 if left < FORGOTTEN_HITS else left


def eviction_score(entry: Entry, now: int, incoming: Incoming | None = None) -> float:
    """What a file is worth: tokens per byte, more for recent hits and anchors, less if the incoming one covers it."""
    hits = decayed_hits(entry.hits, now - entry.last_used)
    score = (hits + 1) * entry.num_tokens / max(1, entry.file_bytes)
    if entry.reason in ANCHOR_REASONS:
        score *= 2
    if incoming is not None and entry.reason is Reason.CONTINUED and _covers(incoming, entry):
        score *= 0.05 + 0.45 * hits / (hits + 1)
    return score


def victims(
    entries: Iterable[Entry],
    budget_bytes: int,
    now: int,
    incoming: Incoming | None = None,
    spared: Sequence[str] = (),
) -> list[Entry]:
    """What must go so that the rest and the incoming file fit, worst first.

    The spared ones (names of what is used or needed next, the most recent last) are taken only after all others, and
    in their order.
    """
    rank = {name: number for number, name in enumerate(spared, 1)}
    held = sorted(entries, key=lambda e: (rank.get(e.name, 0), eviction_score(e, now, incoming), e.last_used))
    coming = _room(incoming.file_bytes) if incoming else 0
    if coming > budget_bytes:
        return []
    surplus = sum(entry.file_bytes for entry in held) + coming - budget_bytes
    chosen = []
    for entry in held:
        if surplus <= 0:
            break
        chosen.append(entry)
        surplus -= entry.file_bytes
    return chosen


def lookup_order(
    entries: Iterable[Entry],
    prefix_names: Mapping[int, str],
    context_length: int,
    quant_bits: int | None,
    min_tokens: int,
) -> list[Entry]:
    """Usable files, best first. `prefix_names`: of each length, the name of the prompt's prefix of that many bytes.

    `quant_bits`: only files of a model of this precision; None = any.
    """
    usable = [
        entry
        for entry in entries
        if entry.is_usable
        and prefix_names.get(entry.text_bytes) == entry.name
        and entry.num_tokens >= min_tokens
        and entry.context_length <= context_length
        and quant_bits in (None, entry.quant_bits)
    ]
    return sorted(usable, key=lambda entry: (-entry.text_bytes, -entry.num_tokens, entry.name))


def after_hit(num_tokens: int, limits: Limits) -> AfterHit:
    """A sequence too long for cold saves is saved again as it grows: then its file has done its work."""
    return "consume" if 0 < limits.cold_max_tokens < num_tokens else "bump"


def _room(file_bytes: int) -> int:
    return file_bytes - (-file_bytes // HEADROOM)


def _covers(incoming: Incoming, entry: Entry) -> bool:
    return entry.name in incoming.prefixes and incoming.context_length <= entry.context_length


def _round_down(value: int, step: int) -> int:
    return max(0, value) // step * step


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
