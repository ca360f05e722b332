"""Numbers of the options about models larger than memory: how many experts, how much memory."""

import re
from decimal import Decimal

from whitedwarf.config import StreamingSettings
from whitedwarf.errors import UsageError
from whitedwarf.weights.streaming_budget import CacheWish

_GIB = 1 << 30
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*g(?:i?b)?", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}")


def cache_wish(settings: StreamingSettings) -> CacheWish | None:
    """What --ssd-streaming-cache-experts asks for, if it is given; UsageError for what is neither number nor size."""
    text = settings.ssd_streaming_cache_experts
    if text is None:
        return None
    if _COUNT.fullmatch(text.strip()) and int(text) > 0:
        return CacheWish(num_experts=int(text))
    size_bytes = _gibibytes(text)
    if size_bytes is None:
        raise UsageError(
            f"--ssd-streaming-cache-experts: got {text!r}; expected a number of experts such as 500, or memory for "
            "them such as 24GB"
        )
    return CacheWish(size_bytes=size_bytes)


def simulated_bytes(settings: StreamingSettings) -> int:
    """What --simulate-used-memory takes away, 0 without it; UsageError for what is no size."""
    text = settings.simulate_used_memory
    return 0 if text is None else gibibytes("--simulate-used-memory", text)


def check_streaming(settings: StreamingSettings) -> None:
    """UsageError for options about experts that are streamed where none are, and for two that contradict."""
    if not settings.ssd_streaming:
        given = [name for name in _OPTIONS if getattr(settings, name) not in (None, False)]
        if given:
            raise UsageError(f"{_flag(given[0])} is about --ssd-streaming: give that too, or leave it out")
    if settings.ssd_streaming_cold and settings.ssd_streaming_preload_experts:
        raise UsageError("--ssd-streaming-cold and --ssd-streaming-preload-experts contradict each other: give one")


def gibibytes(flag: str, text: str) -> int:
    """Bytes of a size such as 3GB or 1.5GiB; G, GB and GiB are all of 1024 MiB. UsageError names the flag."""
    size_bytes = _gibibytes(text)
    if size_bytes is None:
        raise UsageError(f"{flag}: got {text!r}; expected a size such as 3GB (of 1024 MiB)")
    return size_bytes


_OPTIONS = ("ssd_streaming_cache_experts", "ssd_streaming_cold", "ssd_streaming_preload_experts")


def _gibibytes(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    size_bytes = int(Decimal(found[1]) * _GIB) if found else 0
    return size_bytes or None


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
