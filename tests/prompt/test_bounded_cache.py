import threading
from collections.abc import Callable

from whitedwarf.prompt.bounded_cache import ENTRY_BYTES, BoundedCache


class Lengths:
    """The length of each text, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[int]:
        self.asked.append(texts)
        return [len(text) for text in texts]


def cache_of(capacity_bytes: int) -> BoundedCache[str, int]:
    return BoundedCache(capacity_bytes, lambda text, _: 100 + len(text))


def test_what_is_known_is_not_asked_again_and_the_rest_at_once() -> None:
    cache, make = cache_of(1 << 20), Lengths()
    assert cache.take(["one", "three"], make) == {"one": 3, "three": 5}
    assert cache.take(["three", "four", "one", "four", "eleven"], make) == {
        "one": 3,
        "three": 5,
        "four": 4,
        "eleven": 6,
    }
    assert make.asked == [["one", "three"], ["four", "eleven"]]


def test_the_longest_unused_goes_first() -> None:
    make = Lengths()
    cache = cache_of(20 * (ENTRY_BYTES + 130))
    for number in range(100):
        cache.take([f"text {number}", "used again and again"], make)
    assert sum("used again and again" in asked for asked in make.asked) == 1
    assert 10 < len(cache) < 30
    cache.take(["text 99"], make)
    assert len(make.asked) == 100
    cache.take(["text 0"], make)
    assert make.asked[-1] == ["text 0"]


def test_no_more_than_the_capacity_is_kept() -> None:
    cache = cache_of(100_000)
    for number in range(2000):
        cache.take([f"{number}" * (number % 500)], Lengths())
        assert cache.size_bytes <= 100_000


def test_a_text_too_large_for_the_cache_drives_nothing_out() -> None:
    cache, make = cache_of(100_000), Lengths()
    cache.take(["small"], make)
    cache.take(["x" * 200_000], make)
    cache.take(["small"], make)
    assert len(make.asked) == 2
    assert len(cache) == 1


def test_nothing_is_left_after_clear() -> None:
    cache = cache_of(1 << 20)
    cache.take(["a", "b"], Lengths())
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_share_one_cache() -> None:
    cache = cache_of(30_000)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for number in range(300):
            texts = [f"{(number * seed) % 97}" * 3, "shared", f"{seed}-{number}"]
            if cache.take(texts, Lengths()) != {text: len(text) for text in texts}:
                wrong.extend(texts)

    in_threads(4, work)
    assert not wrong
    assert cache.size_bytes <= 30_000
