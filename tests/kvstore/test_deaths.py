"""The process dies at one call after another: what is there afterwards is whole, and nothing that was there is lost.

Dying is raised from the calls that change the disk; a dead process makes no further ones, not even to clean up. Writes
of more than a header's field end halfway.
"""

import os
from collections.abc import Callable

import pytest

from fakes.kv_files import FakeFile, read_file, tool_map
from fakes.packed_files import PackedFile, read_packed
from kvstore.folder import PACKED_LAYOUT, StoreBench, payload_of
from whitedwarf.kvstore.header import Reason

OLD_MAP = tool_map((b"call_a", b"prompt"))
PROMPT = FakeFile().text
CHANGES = ("pwrite", "ftruncate", "fsync", "rename", "replace", "unlink", "fchmod")
LONGEST_FIELD = 8


class Died(BaseException):
    """Not an Exception: nobody may survive it."""


def dying(monkeypatch, calls_left: int) -> None:
    """Let so many changes happen, then none."""
    left = calls_left

    def instead_of(name: str) -> Callable:
        change = getattr(os, name)

        def call(*arguments, **more):
            nonlocal left
            left -= 1
            if left >= 0:
                return change(*arguments, **more)
            if name == "pwrite" and left == -1 and len(arguments[1]) > LONGEST_FIELD:
                descriptor, data, offset = arguments
                change(descriptor, data[: len(data) // 2], offset)
            raise Died

        return call

    for name in CHANGES:
        monkeypatch.setattr(os, name, instead_of(name))


def every_death(monkeypatch, work: Callable[[], object], check: Callable[[], object]) -> int:
    """How many changes `work` makes; `check` is called after a death at each of them."""
    for calls_left in range(1000):
        with monkeypatch.context() as patch:
            dying(patch, calls_left)
            try:
                work()
            except Died:
                pass
            else:
                return calls_left
        check()
    raise AssertionError("it never ends")


def whole(bench: StoreBench) -> dict[str, dict]:
    """Every file, read by the tests' own readers."""
    found = {}
    for path in bench.folder.glob("*.kv"):
        data = path.read_bytes()
        if data[20] == 2:
            found[path.stem] = read_file(data)
        else:
            text, size = int.from_bytes(data[48:52], "little"), int.from_bytes(data[40:48], "little")
            found[path.stem] = read_packed(data[52 + text : 52 + text + size])
    return found


@pytest.mark.parametrize("kind", [FakeFile, PackedFile])
def test_a_save_leaves_the_whole_file_or_none(bench, monkeypatch, kind):
    kept = bench.put(kind(text=b"kept"))
    store = bench.open(layout=PACKED_LAYOUT)

    def save() -> None:
        store.save(b"new <A>", payload_of(kind(n=130)), Reason.COLD, tools={"call_a": b"<A>"})

    def check() -> None:
        assert set(whole(bench)) <= {kept.stem, kind(text=b"new <A>").name}
        again = bench.open(layout=PACKED_LAYOUT)
        assert not [name for name in bench.names() if ".tmp." in name]
        assert again.take(b"kept and") is not None
        for path in set(bench.folder.glob("*.kv")) - {kept}:
            assert again.take(b"new <A> and").tools == {"call_a": b"<A>"}
            path.unlink()

    assert every_death(monkeypatch, save, check) > 8


@pytest.mark.parametrize("kind", [FakeFile, PackedFile])
def test_a_change_of_the_tool_map_costs_at_most_the_map(bench, monkeypatch, kind):
    fake = kind(flags=1, trailer=OLD_MAP)
    new = {"call_b": b"that was", "call_c": b"read before"}

    def rewrite() -> None:
        bench.open(layout=PACKED_LAYOUT).save(PROMPT, payload_of(kind()), Reason.COLD, tools=new)

    def check() -> None:
        again = bench.open(layout=PACKED_LAYOUT)
        hit = again.take(PROMPT + b" and")
        assert hit.payload.ids.tolist() == fake.tokens()
        assert hit.tools.items() <= ({"call_a": b"prompt"} | new).items()
        assert again.tools({"call_a", "call_b", "call_c"}) == hit.tools
        bench.put(fake)

    bench.put(fake)
    assert every_death(monkeypatch, rewrite, check) >= 5
    assert bench.open(layout=PACKED_LAYOUT).take(PROMPT).tools == {"call_a": b"prompt"} | new


@pytest.mark.parametrize("kind", [FakeFile, PackedFile])
def test_a_hit_that_is_not_counted_to_its_end_costs_nothing(bench, monkeypatch, kind):
    path = bench.put(kind(hits=3))
    store = bench.open(layout=PACKED_LAYOUT)

    def check() -> None:
        hits = int.from_bytes(path.read_bytes()[12:16], "little")
        assert hits >= 3
        assert bench.open(layout=PACKED_LAYOUT).take(PROMPT).payload.ids.tolist() == kind().tokens()

    assert every_death(monkeypatch, lambda: store.take(PROMPT), check) == 2


def test_consuming_a_long_file_leaves_it_or_the_longer_one(bench, monkeypatch):
    def work() -> None:
        store = bench.open(layout=PACKED_LAYOUT)
        assert store.take(PROMPT + b" and") is not None
        store.save(PROMPT + b" and", payload_of(PackedFile(n=202)), Reason.CONTINUED)

    def check() -> None:
        assert bench.open(layout=PACKED_LAYOUT).take(PROMPT + b" and more") is not None
        for path in bench.folder.iterdir():
            path.unlink()
        bench.put(PackedFile(n=201))

    bench.put(PackedFile(n=201))
    assert every_death(monkeypatch, work, check) > 8
    assert len(bench.names()) == 1
