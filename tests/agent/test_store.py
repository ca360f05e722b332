"""Sessions on disk: what is saved comes back with the same bits, and nothing that is not right is gone on from."""

import errno
import hashlib
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.store_bench import FACTS, StoreBench, ask, ids_of, nano, read, steered, tokens
from whitedwarf.agent import journal as journal_module
from whitedwarf.agent import store as store_module
from whitedwarf.agent.approval import Rule
from whitedwarf.agent.journal import SessionInUseError
from whitedwarf.agent.session_facts import SessionFacts
from whitedwarf.agent.session_file import read_head
from whitedwarf.agent.store import id_of, normalised
from whitedwarf.agent.store_opening import open_stateless_store, open_store
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.kvstore import directory
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.header import Reason

SUFFIX = ids_of(40, seed=9)


@pytest.fixture
def bench(tmp_path: Path) -> StoreBench:
    return StoreBench(tmp_path / "sessions")


# saving and going on


@pytest.mark.parametrize("length", [3, 127, 128, 129, 513])
def test_a_session_goes_on_after_a_restart_with_the_same_bits_and_reads_nothing_again(
    bench: StoreBench, length: int
) -> None:
    ids = ids_of(length)
    longer = np.concatenate([ids, SUFFIX])
    with nano().engine() as engine:
        session = engine.new_session()
        ask(engine, session, ids, 0)
        kept = bench.open().create("hello", ids, FACTS)
        kept.save(ids, engine.snapshot(session), FACTS)
        kept.close()
        live = ask(engine, session, longer)
    resumed = bench.open().open(kept.id)
    with nano().engine() as engine:
        restored = ask(engine, engine.new_session(resumed.saved), longer)
        cold = ask(engine, engine.new_session(), longer)
    assert restored.finished.reused_tokens == length
    assert restored.tokens == live.tokens == cold.tokens  # with their logarithms
    assert (resumed.ids.tolist(), resumed.why) == (ids.tolist(), "")
    resumed.session.close()


def test_what_the_state_has_not_read_is_not_lost(bench: StoreBench) -> None:
    ids = ids_of(300)
    session = bench.open().create("hello", ids, FACTS)
    session.save(ids, read(nano(), ids[:250]), FACTS)
    session.close()
    resumed = bench.open().open(session.id)
    with nano().engine() as engine:
        assert ask(engine, engine.new_session(resumed.saved), resumed.ids).finished.reused_tokens == 250
    assert resumed.ids.tolist() == ids.tolist()
    resumed.session.close()


def test_a_state_of_other_tokens_is_not_written(bench: StoreBench) -> None:
    ids = ids_of(300)
    session = bench.open().create("hello", ids, FACTS)
    session.save(ids, read(nano(), ids_of(200, seed=5)), FACTS)
    session.close()
    assert bench.open().listing().entries[0].is_stripped


def test_facts_come_back(bench: StoreBench) -> None:
    facts = SessionFacts(
        thinking=Thinking.MAX,
        approvals={"bash": Rule.AUTO, "fetch": Rule.DENY},
        workspace="/home/ümlaut",
        tools=("read", "bash"),
        model="nano",
    )
    store = bench.open()
    session = store.create("hello", ids_of(20), facts)
    session.close()
    found = store.open(session.id)
    assert replace(found.facts, weights=0) == facts
    found.session.close()


def test_the_id_stays_when_it_is_saved_again_and_the_words_are_its_title(bench: StoreBench) -> None:
    store = bench.open()
    session = store.create("  fix\n\tthe   tests ", ids_of(20), FACTS)
    bench.now += 100
    session.save(ids_of(30), None, FACTS)
    session.close()
    (entry,) = store.listing().entries
    assert (entry.id, entry.title) == (id_of("fix the tests", 1_800_000_000), "fix the tests")
    assert (entry.created, entry.last_used, entry.num_tokens) == (1_800_000_000, 1_800_000_100, 30)
    assert bench.names() == {f"{entry.id}.kv"}


def test_the_id_is_that_of_the_format() -> None:
    assert id_of("a", 1) == hashlib.sha1(b"a" + struct.pack("<Q", 1)).hexdigest()
    assert normalised(" a\n\n b\t") == "a b"


def test_two_sessions_of_the_same_words_in_the_same_second_are_two(bench: StoreBench) -> None:
    assert bench.saved() != bench.saved()
    assert len(bench.open().listing().entries) == 2


def test_two_processes_that_begin_alike_in_the_same_second_get_two_sessions(bench: StoreBench) -> None:
    first = bench.open().create("hello", ids_of(5), FACTS)
    bench.path(first.id).unlink()  # as if it were not written yet
    second = bench.open().create("hello", ids_of(6), FACTS)
    assert first.id != second.id
    first.close()
    second.close()


def test_a_list_is_made_anew_only_of_what_changed(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = bench.saved("one", 20), bench.saved("two", 20)
    store, read = bench.open(), []
    monkeypatch.setattr(store_module, "read_head", lambda file: read.append(file.path.stem) or read_head(file))
    store.listing()
    store.listing()
    assert len(read) == 2
    store.strip(first)
    assert next(entry for entry in store.listing().entries if entry.id == first).is_stripped
    assert read[2:] == [first, first]  # once while it was stripped


def test_files_are_private_in_a_private_folder(bench: StoreBench) -> None:
    session_id = bench.saved()
    assert bench.folder.stat().st_mode & 0o777 == 0o700
    assert bench.path(session_id).stat().st_mode & 0o777 == 0o600
    session = bench.open().open(session_id).session
    session.note(ids_of(400))
    assert {path.stat().st_mode & 0o777 for path in bench.folder.iterdir()} == {0o600}
    session.close()


def test_the_file_is_one_of_the_format_with_a_title(bench: StoreBench) -> None:
    with KvFile(bench.path(bench.saved("héllo"))) as file:
        assert file.header.reason is Reason.AGENT_SESSION
        assert file.header.flags == 0x88
        assert file.text() == b"".join(tokens().token_bytes(token) for token in ids_of(300))
        title = "héllo".encode()
        assert file.trailers().startswith(struct.pack("<I", len(title)) + title + b"WDA\x01")


# lists and ids


def test_the_list_is_newest_first(bench: StoreBench) -> None:
    ids = []
    for seconds, words in enumerate(("one", "two", "three")):
        bench.now = 1_800_000_000 + seconds
        ids.append(bench.saved(words, 20))
    bench.now += 50
    bench.open().open(ids[0]).session.close()
    assert [entry.title for entry in bench.open().listing().entries] == ["one", "three", "two"]


def test_any_unique_beginning_of_an_id_finds_it(bench: StoreBench) -> None:
    first, second = bench.saved("one", 20), bench.saved("two", 20)
    store = bench.open()
    telling = next(place for place in range(40) if first[place] != second[place]) + 1
    assert store.find(first[:telling].upper()) == first
    assert store.find(first) == first
    with pytest.raises(UsageError, match="/list"):
        store.find("0" * 40)
    for nonsense in ("", "xyz", "../../etc", "g" * 3, "a" * 41):
        with pytest.raises(UsageError, match="first digits"):
            store.find(nonsense)


def test_an_ambiguous_beginning_is_told(bench: StoreBench) -> None:
    bench.open()
    for name in ("ab" + "1" * 38, "ab" + "2" * 38):
        (bench.folder / f"{name}.kv").write_bytes(b"")
    with pytest.raises(UsageError, match=r"2 sessions.*more digits"):
        bench.open().find("ab")


def test_sessions_of_another_model_or_a_larger_context_are_refused_with_the_reason(bench: StoreBench) -> None:
    session_id = bench.saved()
    smaller = bench.open(nano(2048))
    assert smaller.listing().entries == ()
    assert "--ctx 4096" in smaller.listing().problems[0]
    with pytest.raises(FileFormatError, match="--ctx 4096"):
        smaller.open(session_id)
    store = bench.open()
    store._form.weights ^= 0x55  # other weights
    with pytest.raises(FileFormatError, match=r"another model \(nano\)"):
        store.open(session_id)
    assert (store.listing().entries, store.listing().problems, store.listing().num_others) == ((), (), 1)
    assert bench.open().listing().problems == ()
    assert f"{session_id}.journal" not in bench.names()


def test_a_larger_context_here_is_welcome(bench: StoreBench) -> None:
    session_id = StoreBench(bench.folder, loaded=nano(2048)).saved()
    resumed = bench.open().open(session_id)
    assert resumed.saved is not None
    resumed.session.close()


# steering


def test_a_state_made_under_a_steering_is_only_used_under_the_same(bench: StoreBench) -> None:
    loaded = steered(nano())
    session_id = StoreBench(bench.folder, loaded=loaded).saved()
    plain = bench.open().open(session_id)
    assert (plain.saved, plain.ids.tolist()) == (None, ids_of(300).tolist())
    assert "under a steering" in plain.why
    plain.session.close()
    other = bench.open(steered(nano(), 0.25)).open(session_id)
    assert other.saved is None
    other.session.close()
    same = bench.open(loaded).open(session_id)
    assert same.saved is not None
    assert same.facts.steering is not None
    same.session.close()


def test_a_state_made_without_steering_is_not_used_under_one(bench: StoreBench) -> None:
    resumed = bench.open(steered(nano())).open(bench.saved())
    assert resumed.saved is None
    assert "without a steering" in resumed.why
    resumed.session.close()


def test_rows_kept_otherwise_are_read_again(bench: StoreBench) -> None:
    resumed = bench.open(nano(4096, "f32")).open(bench.saved())
    assert resumed.saved is None
    assert "rows of kind" in resumed.why
    resumed.session.close()


def test_states_of_another_backend_are_read_again(bench: StoreBench) -> None:
    session_id, loaded = bench.saved(), nano()
    other = open_store(loaded.transformer, loaded.gguf, tokens(), folder=bench.folder, quality=True)
    resumed = other.open(session_id)
    assert resumed.saved is None
    assert "another backend" in resumed.why
    resumed.session.close()


# strip and delete


def test_a_stripped_session_keeps_words_and_title_and_answers_alike_once_read_again(bench: StoreBench) -> None:
    session_id, store = bench.saved("keep me"), bench.open()
    before = bench.path(session_id).stat().st_size
    whole = store.open(session_id)
    whole.session.close()
    store.strip(session_id)
    (entry,) = store.listing().entries
    assert (entry.is_stripped, entry.title, entry.num_tokens) == (True, "keep me", 300)
    assert entry.size_bytes < before / 4
    resumed = store.open(session_id)
    resumed.session.close()
    with nano().engine() as engine:
        longer = np.concatenate([resumed.ids, SUFFIX])
        rebuilt = ask(engine, engine.new_session(resumed.saved), longer, 20)
        restored = ask(engine, engine.new_session(whole.saved), longer, 20)
    assert (rebuilt.finished.reused_tokens, restored.finished.reused_tokens) == (0, 300)
    assert rebuilt.tokens == restored.tokens


def test_stripping_keeps_tokens_that_only_the_last_part_has(bench: StoreBench) -> None:
    ids = ids_of(300)
    session = bench.open().create("hello", ids, FACTS)
    session.save(ids, read(nano(), ids[:250]), FACTS)
    session.close()
    bench.open().strip(session.id)
    bench.open().strip(session.id)  # again is no harm
    assert bench.open().read(session.id)[0].tolist() == ids.tolist()


def test_deleting_leaves_nothing(bench: StoreBench) -> None:
    session_id = bench.saved()
    bench.open().delete(session_id)
    assert bench.names() == set()


def test_what_is_open_is_neither_opened_again_nor_deleted_nor_stripped(bench: StoreBench) -> None:
    session_id = bench.saved()
    first, second = bench.open(), bench.open()
    resumed = first.open(session_id)
    assert second.is_open(session_id)
    for act in (second.open, second.delete, second.strip):
        with pytest.raises(SessionInUseError, match="another process"):
            act(session_id)
    assert second.read(session_id)[0].tolist() == ids_of(300).tolist()  # looking is free
    resumed.session.close()
    second.open(session_id).session.close()
    assert bench.names() == {f"{session_id}.kv"}


# the journal


def test_noted_tokens_survive_without_a_save(bench: StoreBench) -> None:
    session_id = bench.saved()
    resumed = bench.open().open(session_id)
    now = np.concatenate([resumed.ids, SUFFIX])
    resumed.session.note(now)
    os.close(resumed.session._journal._descriptor)  # as if the process had died
    resumed.session._journal._descriptor = -1
    again = bench.open().open(session_id)
    assert again.ids.tolist() == now.tolist()
    assert again.saved is not None
    assert len(again.saved.ids) == 300  # only the tail is to be read
    again.session.close()


def test_a_save_empties_the_journal_unless_more_was_noted_meanwhile(bench: StoreBench) -> None:
    store, ids = bench.open(), ids_of(300)
    session = store.create("x", ids[:100], FACTS)
    session.note(ids[:200])
    session.save(ids[:200], None, FACTS)
    assert session._journal.is_empty
    session.note(ids)
    session.save(ids[:200], None, FACTS)  # of before
    assert not session._journal.is_empty
    session.close()
    assert store.read(session.id)[0].tolist() == ids.tolist()


def test_shortened_sessions_do_not_go_on_from_the_state_of_before(bench: StoreBench) -> None:
    session_id = bench.saved()
    resumed = bench.open().open(session_id)
    short = np.concatenate([resumed.ids[:50], SUFFIX])
    resumed.session.note(short)
    resumed.session.close()
    again = bench.open().open(session_id)
    assert (again.ids.tolist(), again.saved) == (short.tolist(), None)
    assert "has been changed" in again.why
    again.session.close()


def test_a_journal_whose_session_comes_just_now_stays(bench: StoreBench) -> None:
    bench.open()
    path = bench.folder / f"{'a' * 40}.journal"
    path.write_bytes(b"WDJ1")

    def is_needed() -> bool:
        assert journal_module.is_in_use(path)  # nobody gets it while this is asked
        return True

    journal_module.remove_unused(path, is_needed)
    assert path.exists()
    journal_module.remove_unused(path, lambda: False)
    assert not path.exists()


def test_journals_without_a_session_go_away(bench: StoreBench) -> None:
    bench.open()
    (bench.folder / f"{'a' * 40}.journal").write_bytes(b"WDJ1")
    bench.open()
    assert bench.names() == set()


# what goes wrong


def test_a_file_cut_anywhere_is_refused_or_read_right(bench: StoreBench) -> None:
    session_id = bench.saved(length=40)
    path, whole = bench.path(session_id), ids_of(40).tolist()
    data = path.read_bytes()
    store = bench.open()
    for size in (*range(60), *range(60, len(data), 397), *range(len(data) - 300, len(data))):
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError):
            store.open(session_id)
        assert len(store.listing().problems) == 1
    path.write_bytes(data)
    resumed = store.open(session_id)
    assert resumed.ids.tolist() == whole
    resumed.session.close()


def test_a_damaged_state_costs_reading_and_no_more(bench: StoreBench) -> None:
    session_id = bench.saved()
    data = bytearray(bench.path(session_id).read_bytes())
    with KvFile(bench.path(session_id)) as file:
        data[file.tools_offset - 500] ^= 1
    bench.path(session_id).write_bytes(data)
    resumed = bench.open().open(session_id)
    assert resumed.saved is None
    assert "checksum" in resumed.why
    assert resumed.ids.tolist() == ids_of(300).tolist()
    resumed.session.close()


def test_damaged_tokens_are_refused(bench: StoreBench) -> None:
    session_id = bench.saved()
    data = bytearray(bench.path(session_id).read_bytes())
    data[-100] ^= 1
    bench.path(session_id).write_bytes(data)
    with pytest.raises(FileFormatError, match="checksum of its last part"):
        bench.open().open(session_id)


def test_a_full_disk_leaves_the_old_file_and_says_so(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = bench.saved()
    before = bench.path(session_id).read_bytes()
    resumed = bench.open().open(session_id)

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(directory, "write_all", full)
        with pytest.raises(OSError, match="No space"):
            resumed.session.save(ids_of(300), read(nano(), ids_of(300)), FACTS)
    assert bench.path(session_id).read_bytes()[48:] == before[48:]
    assert bench.names() == {f"{session_id}.kv", f"{session_id}.journal"}
    resumed.session.save(ids_of(300), None, FACTS)
    resumed.session.close()


def test_a_journal_that_took_no_more_does_not_take_back_what_was_saved_afterwards(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ids_of(300)
    session = bench.open().create("hello", ids[:100], FACTS)
    session.note(ids[:200])

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "write_all", full)
        for length in (250, 300):
            with pytest.raises(OSError, match="No space"):
                session.note(ids[:length])
    session.save(ids[:250], None, FACTS)  # room was made meanwhile
    session.close()
    resumed = bench.open().open(session.id)
    assert resumed.ids.tolist() == ids[:250].tolist()
    resumed.session.close()


def test_a_file_of_something_else_is_no_session(bench: StoreBench) -> None:
    session_id = bench.saved()
    data = bytearray(bench.path(session_id).read_bytes())
    data[5] = Reason.COLD
    bench.path(session_id).write_bytes(data)
    with pytest.raises(FileFormatError, match="expected a session"):
        bench.open().open(session_id)


def test_files_of_ds4_are_opened_by_their_states_or_texts(bench: StoreBench) -> None:
    session_id = bench.saved()
    path = bench.path(session_id)
    with KvFile(path) as file:
        data, title_end = path.read_bytes(), file.tools_offset + 4 + len("list the files")
    foreign = bytearray(data[:title_end])
    foreign[6] = 8
    path.write_bytes(foreign)
    resumed = bench.open().open(session_id)
    assert resumed.saved is not None
    assert resumed.ids.tolist() == ids_of(300).tolist()
    resumed.session.close()
    bench.open().strip(session_id)
    resumed = bench.open().open(session_id)
    text = b"".join(tokens().token_bytes(token) for token in ids_of(300)).decode(errors="replace")
    assert resumed.ids.tolist() == tokens().encode_rendered(text)
    resumed.session.close()


# the system's prompt


def test_the_system_prompt_is_read_once_for_all_starts(bench: StoreBench) -> None:
    ids = ids_of(200)
    store = bench.open()
    assert store.system_prompt(ids) is None
    store.keep_system_prompt(read(nano(), ids))
    saved = bench.open().system_prompt(ids)
    with nano().engine() as engine:
        longer = np.concatenate([ids, SUFFIX])
        answer = ask(engine, engine.new_session(saved), longer)
        assert answer.finished.reused_tokens == 200
        assert answer.tokens == ask(engine, engine.new_session(), longer).tokens
    with KvFile(bench.folder / "sysprompt.kv") as file:
        assert file.header.reason is Reason.AGENT_SYSTEM
    assert bench.open().listing().entries == ()


def test_a_system_prompt_that_changed_is_not_used_and_replaced(bench: StoreBench) -> None:
    store = bench.open()
    store.keep_system_prompt(read(nano(), ids_of(200)))
    assert store.system_prompt(ids_of(200, seed=2)) is None
    assert store.system_prompt(ids_of(199)) is None
    store.keep_system_prompt(read(nano(), ids_of(200, seed=2)))
    assert store.system_prompt(ids_of(200)) is None
    assert store.system_prompt(ids_of(200, seed=2)) is not None
    assert bench.names() == {"sysprompt.kv"}


def test_a_system_prompt_of_another_steering_or_damaged_is_not_used(bench: StoreBench) -> None:
    ids = ids_of(200)
    bench.open().keep_system_prompt(read(nano(), ids))
    assert bench.open(steered(nano())).system_prompt(ids) is None
    path = bench.folder / "sysprompt.kv"
    path.write_bytes(path.read_bytes()[:-10])
    assert bench.open().system_prompt(ids) is None


# without a model


def test_behind_a_script_tokens_are_kept_and_states_are_not(tmp_path: Path) -> None:
    store = open_stateless_store(tokens(), 4096, tmp_path)
    session = store.create("hello", ids_of(30), FACTS)
    session.save(ids_of(30), SessionSnapshot(np.empty(0, np.int32)), FACTS)
    session.close()
    resumed = open_stateless_store(tokens(), 4096, tmp_path).open(session.id)
    assert (resumed.ids.tolist(), resumed.saved) == (ids_of(30).tolist(), None)
    resumed.session.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="name another folder"):
        open_stateless_store(tokens(), 4096, tmp_path / "file" / "x")


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    nano(), tokens()
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    yield
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4  # other models may have been opened


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
@pytest.mark.parametrize("size", [0, 60, 5_000, 100_000])
def test_a_disk_that_takes_no_more_leaves_the_old_file_and_no_half_one(bench: StoreBench, size: int) -> None:
    """The system's own refusal, in the middle of a write."""
    import resource

    session_id = bench.saved()
    before = bench.path(session_id).read_bytes()
    assert len(before) > 100_000
    session = bench.open().open(session_id).session
    saved, longer = read(nano(), ids_of(300)), np.concatenate([ids_of(300), SUFFIX])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            session.save(longer, saved, FACTS)
        if size == 0:
            with pytest.raises(OSError, match="too large"):
                session.note(longer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert bench.path(session_id).read_bytes()[48:] == before[48:]
    assert bench.names() == {f"{session_id}.kv", f"{session_id}.journal"}
    session.note(longer)
    session.close()
    assert bench.open().read(session_id)[0].tolist() == longer.tolist()
