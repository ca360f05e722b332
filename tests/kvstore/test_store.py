"""The directory: what is found, kept, refused, dropped."""

import hashlib
import os
import re

import numpy as np
import pytest

from fakes.kv_files import FakeFile, read_file, tool_map
from fakes.packed_files import PackedFile
from kvstore.folder import LAYOUT, PACKED_LAYOUT, payload_of
from whitedwarf.kvstore.directory import Directory
from whitedwarf.kvstore.dsv4 import size_bytes
from whitedwarf.kvstore.header import RESPONSES_VISIBLE, Reason
from whitedwarf.kvstore.payload import Payload
from whitedwarf.kvstore.policy import Limits
from whitedwarf.kvstore.room import MAX_SPARED
from whitedwarf.kvstore.store import prefix_names

PROMPT = FakeFile().text + b" and more"


def save(store, text: bytes, n: int = 9, reason: Reason = Reason.COLD, **options) -> str | None:
    return store.save(text, payload_of(FakeFile(n=n)), reason, **options)


def test_a_saved_file_has_the_bytes_of_the_sheet(bench):
    store = bench.open(quant_bits=4, model_id=1)
    fake = FakeFile(n=130)
    name = store.save(fake.text, payload_of(fake), Reason.EVICT, flags=RESPONSES_VISIBLE)
    assert name == fake.name
    expected = FakeFile(
        n=130,
        quant=4,
        reason=3,
        flags=2,
        model=1,
        hits=0,
        chunk=0,
        raw_cap=128,
        created=bench.now,
        used=bench.now,
    )
    assert (bench.folder / f"{name}.kv").read_bytes() == expected.to_bytes()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_ds4_is_found_after_a_restart(bench, version):
    fake = FakeFile(version=version)
    bench.put(fake)
    hit = bench.open().take(PROMPT)
    assert hit.text_bytes == len(fake.text)
    assert hit.payload.ids.tolist() == fake.tokens()
    assert all(
        np.array_equal(a, b)
        for ours, theirs in zip(hit.payload.layers, fake.arrays(), strict=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_the_longest_prefix_is_taken_and_a_text_that_differs_is_not(bench):
    store = bench.open()
    for text in (b"ab", b"abcd", b"abcX", b"abcdefgh"):
        save(store, text)
    assert store.take(b"abcdefg").text_bytes == 4
    assert store.take(b"abcd").text_bytes == 4
    assert store.candidates(b"abcdefghi")[0].text_bytes == 8
    assert store.take(b"x") is None
    assert store.take(b"") is None


def test_a_hit_is_counted_in_the_file(bench):
    path = bench.put(FakeFile(hits=3))
    before = read_file(path.read_bytes())
    bench.open().take(PROMPT)
    after = read_file(path.read_bytes())
    assert (after["hits"], after["used"]) == (4, bench.now)
    assert (after["created"], after["text"]) == (before["created"], before["text"])


def test_a_long_file_is_consumed_when_a_longer_one_has_been_saved_after_its_hit(bench):
    path, store = bench.put(FakeFile(n=201)), bench.open()
    other = save(store, b"another text", n=201)
    assert store.take(PROMPT).payload.num_tokens == 201
    save(store, b"a text that does not begin with it", n=202)
    assert path.exists()  # a crash loses nothing
    assert read_file(path.read_bytes())["hits"] == 4
    name = save(store, PROMPT, n=202)
    assert not path.exists()
    assert {f"{name}.kv", f"{other}.kv"} < bench.names()
    assert store.stats.consumed == 1


def test_a_count_that_does_not_match_deletes_the_file(bench):
    bench.put(FakeFile(header_tokens=8))
    assert bench.open().take(PROMPT) is None
    assert bench.names() == set()
    assert "its header says 8" in bench.lines[-1]


SKIPPED = {
    "magic": {"magic": b"XYZ"},
    "version 9": {"version": 9},
    "vocabulary": {"vocab": 21},
    "layers": {"layers": 4},
    "model id": {"model": 1},
    "weights marked 0x0001": {"ours": b"\0\x01\0"},
    "rows of kind 2": {"ours": b"\x02\0\0"},
    "context 601": {"context": 601},
    "4 bits": {"quant": 4},
}


@pytest.mark.parametrize("kind", [FakeFile, PackedFile])
@pytest.mark.parametrize("message", SKIPPED)
def test_a_file_that_cannot_be_used_is_skipped_with_one_line(bench, message, kind):
    path = bench.put(kind(**SKIPPED[message]))
    store = bench.open(quant_bits=2, same_quant_only=True, layout=PACKED_LAYOUT, model_mark=7)
    lines = len(bench.lines)
    assert store.take(PROMPT) is None
    assert store.take(PROMPT) is None
    told = [line for line in bench.lines if "skipped" in line]
    assert len(told) == 1
    assert path.stem[:12] in told[0]
    assert re.search(message, told[0])
    assert lines <= 1
    assert path.exists()


@pytest.mark.parametrize("kind", [FakeFile, PackedFile])
def test_a_file_cut_at_any_length_is_skipped_with_one_line(bench, kind):
    data, path = kind().to_bytes(), bench.put(kind())
    for length in [*range(0, 120, 3), len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        del bench.lines[:]
        assert bench.open(layout=PACKED_LAYOUT).take(PROMPT) is None
        assert len([line for line in bench.lines if "skipped" in line and path.stem in line]) == 1


def test_a_packed_file_with_a_changed_bit_is_skipped_with_one_line(bench):
    path = bench.put(PackedFile())
    damaged = bytearray(path.read_bytes())
    damaged[-9] ^= 1
    path.write_bytes(damaged)
    store = bench.open(layout=PACKED_LAYOUT)
    assert store.take(PROMPT) is None
    assert store.take(PROMPT) is None
    assert len([line for line in bench.lines if "checksum" in line]) == 1


def test_another_precision_is_taken_unless_refused(bench):
    bench.put(FakeFile(quant=4))
    assert bench.open(quant_bits=2).take(PROMPT) is not None
    assert bench.open(quant_bits=2, same_quant_only=True).take(PROMPT) is None


def test_a_text_that_is_not_the_one_in_the_name_is_skipped(bench):
    bench.put(FakeFile(text=b"A prompt that was read before"), name=FakeFile().name)
    assert bench.open().take(PROMPT) is None
    assert "key text" in bench.lines[-1]


def test_the_next_best_is_taken_when_the_best_is_damaged(bench):
    store = bench.open()
    name, kept = save(store, b"abcdef"), save(store, b"abc")
    path = bench.folder / f"{name}.kv"
    damaged = bytearray(path.read_bytes())
    damaged[52 + 6] ^= 1  # the payload's magic
    path.write_bytes(damaged)
    assert store.take(b"abcdefg").name == kept


def test_a_damaged_file_is_replaced_by_the_next_save_of_its_text(bench):
    path = bench.put(FakeFile(version=9))
    store = bench.open()
    assert store.take(PROMPT) is None
    save(store, FakeFile().text)
    assert read_file(path.read_bytes())["dsv4"][1] == 2
    assert store.take(PROMPT) is not None


def test_other_files_in_the_folder_are_left_alone(bench):
    others = ["notes.txt", "short.kv", FakeFile().name.upper() + ".kv", f"{FakeFile().name}.kv.bak"]
    for other in others:
        (bench.folder / other).write_bytes(FakeFile().to_bytes())
    (bench.folder / f"{'a' * 40}.kv").mkdir()
    os.mkfifo(bench.folder / f"{'b' * 40}.kv")
    store = bench.open(budget_bytes=1)
    assert store.take(PROMPT) is None
    assert set(others) < bench.names()


def test_the_same_text_is_not_written_twice(bench):
    path = bench.put(FakeFile(used=5))
    inode = path.stat().st_ino
    save(bench.open(), FakeFile().text, reason=Reason.SHUTDOWN)
    found = read_file(path.read_bytes())
    assert (path.stat().st_ino, found["reason"], found["used"], found["hits"]) == (inode, 1, bench.now, 3)


def test_a_file_of_a_larger_context_or_refused_precision_is_replaced(bench):
    path = bench.put(FakeFile(context=601, quant=4))
    save(bench.open(same_quant_only=True), FakeFile().text)
    found = read_file(path.read_bytes())
    assert (found["context"], found["quant"]) == (600, 2)


def test_a_file_of_the_same_text_in_other_tokens_is_replaced(bench):
    bench.put(FakeFile(n=9))
    store = bench.open()
    save(store, FakeFile().text, n=8)
    assert store.take(PROMPT).payload.num_tokens == 8


def test_a_file_of_the_same_text_in_as_many_other_tokens_is_replaced(bench):
    bench.put(FakeFile(seed=1))
    store = bench.open()
    store.save(FakeFile().text, payload_of(FakeFile(seed=2)), Reason.COLD)
    assert store.take(PROMPT).payload.ids.tolist() == FakeFile(seed=2).tokens()


def test_tool_blocks_that_occur_in_the_text_are_saved_and_found_again(bench):
    store = bench.open()
    name = save(store, b"one <A> two <B>", tools={"call_a": b"<A>", "call_b": b"<B>", "call_c": b"<C>", "call_d": b""})
    found = read_file((bench.folder / f"{name}.kv").read_bytes())
    assert found["flags"] & 1
    assert found["trailer"] == tool_map((b"call_a", b"<A>"), (b"call_b", b"<B>"))
    again = bench.open()
    assert again.tools({"call_b", "call_x"}) == {"call_b": b"<B>"}
    assert again.take(b"one <A> two <B> three").tools == {"call_a": b"<A>", "call_b": b"<B>"}


def test_a_tool_block_that_ends_the_text_is_saved_though_its_last_token_was_not_run(bench):
    tools = {"call_a": b"<tool_calls>a</tool_calls>", "call_b": b"<tool_calls>b</tool_calls>"}
    save(bench.open(), b"one <tool_calls>a</tool_calls> <tool_calls>b</tool_", tools=tools)
    assert bench.open().tools({"call_a", "call_b"}) == tools
    save(bench.open(), b"three <tool_", tools={"call_d": b"<tool_calls>d</tool_calls>"})
    assert bench.open().tools({"call_d"}) == {}


def test_ids_that_no_reader_takes_are_left_out(bench):
    store = bench.open()
    save(store, b"one <A>", tools={"": b"<A>", "x" * 257: b"<A>", "call_a": b"<A>"})
    assert store.tools({"", "x" * 257, "call_a"}) == {"call_a": b"<A>"}


def test_new_tool_blocks_of_a_saved_text_join_its_map(bench):
    fake = FakeFile(flags=1, trailer=tool_map((b"call_a", b"prompt")))
    path = bench.put(fake)
    save(bench.open(), fake.text, tools={"call_b": b"that was"})
    found = read_file(path.read_bytes())
    assert found["trailer"] == tool_map((b"call_a", b"prompt"), (b"call_b", b"that was"))
    assert path.read_bytes()[52 : -len(found["trailer"])] == fake.to_bytes()[52 : -len(fake.trailer)]


def test_a_trailer_that_is_not_known_here_is_not_cut_off(bench):
    fake = FakeFile(flags=8, trailer=b"a title")
    path = bench.put(fake)
    save(bench.open(), fake.text, tools={"call_b": b"that was"})
    assert read_file(path.read_bytes())["trailer"] == b"a title"


def size_of(n: int, text: bytes) -> int:
    return 52 + len(text) + size_bytes(n, LAYOUT)


def test_the_budget_holds_and_the_worst_goes(bench):
    each = size_of(9, b"text0")
    store = bench.open(budget_bytes=3 * each + each // 50)
    for i in range(3):
        bench.now += 1
        save(store, b"text%d" % i, reason=Reason.UNKNOWN)
    store.take(b"text0")
    bench.now += 1
    save(store, b"text3", reason=Reason.UNKNOWN)
    assert sorted(e.text_bytes for e in store.entries()) == [5, 5, 5]
    assert store.take(b"text1") is None
    assert store.take(b"text0") is not None
    assert store.take(b"text3") is not None


def test_what_was_just_looked_at_goes_last(bench):
    each = size_of(9, b"text0")
    store = bench.open(budget_bytes=3 * each + each // 50)
    for i in range(3):
        save(store, b"text%d" % i, reason=Reason.UNKNOWN)
        bench.now += 1
    for text in (b"text1", b"text0"):
        store.spare(*store.candidates(text))
    for _ in range(2):
        bench.now += 1
        save(store, b"text0 and %d" % bench.now, reason=Reason.UNKNOWN, n=8)
    assert store.candidates(b"text0")
    assert store.candidates(b"text1")
    save(store, b"long", reason=Reason.UNKNOWN, n=40)
    assert store.candidates(b"text0")
    assert not store.candidates(b"text1")


def test_only_the_last_few_are_spared(bench):
    store = bench.open(budget_bytes=(MAX_SPARED + 1) * size_of(9, b"000") + 300)
    entries = [
        entry for i in range(MAX_SPARED + 1) if save(store, b"%03d" % i) for entry in store.candidates(b"%03d" % i)
    ]
    for entry in [*entries, entries[3]]:
        store.spare(entry)
    save(store, b"new", n=4)
    assert not store.candidates(b"000")
    assert store.candidates(b"003")


def test_a_file_beyond_the_budget_is_not_written_and_evicts_nothing(bench):
    store = bench.open(budget_bytes=size_of(9, b"a") * 2)
    save(store, b"a")
    assert save(store, b"b", n=300) is None
    assert len(store.entries()) == 1
    assert "do not fit" in bench.lines[-1]


def test_a_smaller_budget_is_kept_to_from_the_start(bench):
    store = bench.open()
    for text in (b"a", b"b", b"c"):
        save(store, text)
    assert len(bench.open(budget_bytes=2 * size_of(9, b"a")).entries()) == 2


def test_files_of_other_models_count_and_go_too(bench):
    bench.put(FakeFile(model=1))
    store = bench.open(budget_bytes=size_of(9, b"text") + 400)
    save(store, b"text")
    assert [entry.text_bytes for entry in store.entries()] == [4]


def test_the_tokens_of_a_file_are_read_without_the_rest_of_it(bench):
    path = bench.put(FakeFile(n=130))
    store = bench.open()
    [entry] = store.candidates(PROMPT)
    assert store.ids(entry).tolist() == FakeFile(n=130).tokens()
    path.write_bytes(FakeFile(n=130, version=7).to_bytes())
    assert store.ids(entry) is None
    path.write_bytes(FakeFile(n=131, header_tokens=130).to_bytes())
    assert store.ids(entry) is None
    path.unlink()
    assert store.ids(entry) is None


def test_short_sequences_are_not_looked_up(bench):
    bench.put(FakeFile(n=9))
    assert bench.open(limits=Limits(min_tokens=10)).take(PROMPT) is None


def test_leftovers_of_dead_writers_are_removed_and_those_of_living_ones_kept(bench):
    stem = f"{FakeFile().name}.kv.tmp"
    for pid in (os.getpid(), os.getppid(), 999_999_999):
        (bench.folder / f"{stem}.{pid}").write_bytes(b"half")
    (bench.folder / "other.tmp.999999999").write_bytes(b"not ours")
    bench.open()
    assert bench.names() == {f"{stem}.{os.getppid()}", "other.tmp.999999999"}


def test_a_full_disk_costs_the_file_and_nothing_else(bench, monkeypatch):
    store = bench.open()
    kept = save(store, b"kept")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert save(store, b"lost") is None
    assert bench.names() == {f"{kept}.kv"}
    assert "No space left" in bench.lines[-1]


def test_layers_are_made_only_when_they_are_written(bench):
    def never():
        raise AssertionError("nobody needs them")
        yield

    store = bench.open(budget_bytes=30_000)
    whole = payload_of(FakeFile(n=9))
    lazy = Payload(whole.ids, whole.logits, never())
    name = store.save(b"text", Payload(whole.ids, whole.logits, iter(whole.layers)), Reason.COLD)
    assert store.save(b"text", lazy, Reason.SHUTDOWN) == name
    assert store.save(b"x" * 30_000, lazy, Reason.COLD) is None


def test_layers_that_cannot_be_made_leave_no_file(bench):
    whole = payload_of(FakeFile(n=9))
    store = bench.open()
    with pytest.raises(ValueError, match="shorter"):
        store.save(b"text", Payload(whole.ids, whole.logits, whole.layers[:1]), Reason.COLD)
    assert bench.names() == set()


def test_a_folder_that_vanishes_is_told_once_and_made_again(bench):
    store = bench.open()
    name = save(store, b"text")
    (bench.folder / f"{name}.kv").unlink()
    assert store.take(b"text") is None
    bench.folder.rmdir()
    for _ in range(3):
        assert store.take(b"text") is None
    assert store.tools({"call_a"}) == {}
    assert len([line for line in bench.lines if "cannot list" in line]) == 1
    assert save(store, b"text") == name
    assert bench.folder.stat().st_mode & 0o777 == 0o700
    assert store.take(b"text") is not None
    (bench.folder / f"{name}.kv").unlink()
    bench.folder.rmdir()
    assert store.entries() == []
    assert len([line for line in bench.lines if "cannot list" in line]) == 2


def test_two_stores_see_each_other_s_files(bench):
    one, other = bench.open(), bench.open()
    save(one, b"shared")
    assert other.take(b"shared and more") is not None


def test_what_is_gone_is_not_remembered(bench):
    store = bench.open(limits=Limits(min_tokens=4, cold_max_tokens=5))
    for text in (b"one", b"two"):
        name = save(store, text)
        assert store.take(text) is not None
        with (bench.folder / f"{name}.kv").open("r+b") as file:
            file.truncate(200)
        assert store.take(text) is None
        (bench.folder / f"{name}.kv").unlink()
    save(store, b"three")
    assert store._directory._refused == {}
    assert store._room._used_up == set()


def test_names_of_all_prefixes_come_from_one_pass():
    text = b"some text \xf0\x9f"
    found = prefix_names(text, {0, 4, len(text), 99})
    assert found == {n: hashlib.sha1(text[:n]).hexdigest() for n in (0, 4, len(text))}


def test_the_store_can_say_what_it_did(bench):
    each = size_of(9, b"text0")
    bench.put(FakeFile(magic=b"XYZ"))
    store = bench.open(budget_bytes=3 * each)
    assert (store.stats.files, store.stats.bytes, store.stats.budget_bytes) == (1, each + 24, 3 * each)
    for i in range(2):
        bench.now += 1
        save(store, b"text%d" % i, reason=Reason.EVICT)
    store.take(b"text1")
    assert save(store, b"x" * 3 * each) is None
    (bench.folder / f"{FakeFile().name}.kv").unlink()
    save(store, b"text2", n=8)
    stats = store.stats
    assert (stats.files, stats.bytes) == (2, sum(path.stat().st_size for path in bench.folder.iterdir()))
    assert stats.stored == {"evict": 2, "cold": 1}
    assert (stats.hits, stats.consumed, stats.skipped, stats.evicted, stats.failed) == (1, 0, 1, 1, 1)
    assert (stats.read_bytes, stats.written_bytes) == (each, 2 * each + size_of(8, b"text2"))
    assert stats.read_s > 0 < stats.written_s


def test_asking_for_calls_opens_only_files_that_have_them(bench, monkeypatch):
    store = bench.open()
    for i in range(5):
        save(store, b"text %d <A%d>" % (i, i), tools={f"call_{i}": b"<A%d>" % i})
    assert store.tools({"call_x"}) == {}
    opened, read = [], Directory.read
    monkeypatch.setattr(Directory, "read", lambda self, name, how: opened.append(name) or read(self, name, how))
    assert store.tools({"call_x"}) == {}
    assert opened == []
    assert store.tools({"call_1", "call_3", "call_x"}) == {"call_1": b"<A1>", "call_3": b"<A3>"}
    assert len(opened) == 2
    path = next(iter(bench.folder.glob("*.kv")))
    path.unlink()
    save(store, b"text 9 <A9>", tools={"call_9": b"<A9>"})
    del opened[:]
    assert store.tools({"call_9"}) == {"call_9": b"<A9>"}


def test_a_block_that_does_not_occur_in_the_text_is_damaged(bench):
    fake = FakeFile(text=b"one <A>", flags=1, trailer=tool_map((b"call_a", b"<A>"), (b"call_b", b"<\0>")))
    bench.put(fake)
    store = bench.open()
    assert store.tools({"call_a", "call_b"}) == {"call_a": b"<A>"}
    assert store.take(b"one <A> more").tools == {"call_a": b"<A>"}


def test_looking_again_opens_only_files_that_changed(bench, monkeypatch):
    names = [save(bench.open(), b"text %d" % i) for i in range(20)]
    store, opened, open_ = bench.open(), [], os.open
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or open_(path, *rest, **more))
    assert len(store.candidates(b"text 7 and more")) == 1
    assert opened == []
    store.take(b"text 7 and more")
    del opened[:]
    assert store.candidates(b"text 8")
    assert [path.stem for path in opened] == [names[7]]  # its hit was counted
