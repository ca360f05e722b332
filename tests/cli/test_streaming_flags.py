"""Numbers of experts, sizes, and options that contradict each other."""

import pytest

from whitedwarf.cli.streaming_flags import cache_wish, check_streaming, gibibytes, simulated_bytes
from whitedwarf.config import StreamingSettings
from whitedwarf.errors import UsageError
from whitedwarf.weights.streaming_budget import CacheWish

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("500", CacheWish(num_experts=500)),
        ("24GB", CacheWish(size_bytes=24 * GIB)),
        ("24gib", CacheWish(size_bytes=24 * GIB)),
        ("24 Gb", CacheWish(size_bytes=24 * GIB)),
        ("24G", CacheWish(size_bytes=24 * GIB)),
        ("0.5GB", CacheWish(size_bytes=GIB // 2)),
    ],
)
def test_experts_are_counted_or_given_memory(text: str, wish: CacheWish) -> None:
    assert cache_wish(StreamingSettings(ssd_streaming_cache_experts=text)) == wish


@pytest.mark.parametrize("text", ["", "0", "-1", "0GB", "24MB", "GB", "1.5", "1e3", "24GBs", "1" * 40])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number of experts such as 500"):
        cache_wish(StreamingSettings(ssd_streaming_cache_experts=text))


def test_without_the_option_there_is_no_wish() -> None:
    assert cache_wish(StreamingSettings()) is None
    assert simulated_bytes(StreamingSettings()) == 0


def test_memory_to_take_away_is_a_size() -> None:
    assert simulated_bytes(StreamingSettings(simulate_used_memory="2GB")) == 2 * GIB
    with pytest.raises(UsageError, match="--simulate-used-memory: got '2'"):
        simulated_bytes(StreamingSettings(simulate_used_memory="2"))
    with pytest.raises(UsageError, match="--limit"):
        gibibytes("--limit", "much")


def test_options_about_streaming_need_streaming() -> None:
    check_streaming(StreamingSettings())
    check_streaming(StreamingSettings(simulate_used_memory="2GB"))
    check_streaming(StreamingSettings(ssd_streaming=True, ssd_streaming_cold=True))
    for settings in (
        StreamingSettings(ssd_streaming_cold=True),
        StreamingSettings(ssd_streaming_cache_experts="5"),
        StreamingSettings(ssd_streaming_preload_experts=5),
    ):
        with pytest.raises(UsageError, match="is about --ssd-streaming: give that too"):
            check_streaming(settings)


def test_cold_and_preload_contradict_each_other() -> None:
    check_streaming(StreamingSettings(ssd_streaming=True, ssd_streaming_cold=True, ssd_streaming_preload_experts=0))
    with pytest.raises(UsageError, match="contradict"):
        check_streaming(StreamingSettings(ssd_streaming=True, ssd_streaming_cold=True, ssd_streaming_preload_experts=9))
