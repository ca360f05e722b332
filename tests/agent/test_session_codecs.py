"""The trailers and the journal: what is written is read again, and no bytes upset a reader."""

import contextlib
import itertools
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.approval import Rule
from whitedwarf.agent.journal import Journal, SessionInUseError, checksum, records_in, replayed
from whitedwarf.agent.session_facts import (
    Kept,
    SessionFacts,
    SteeringFacts,
    decode_facts,
    decode_kept,
    encode_kept,
)
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.header import HAS_FACTS, HAS_TITLE, HAS_TOOLS
from whitedwarf.kvstore.title import Trailers, encode_title, split_trailers
from whitedwarf.kvstore.tool_map import encode_tools

texts = st.text(max_size=30)
numbers = st.floats(-100, 100)
facts = st.builds(
    SessionFacts,
    thinking=st.sampled_from(Thinking),
    approvals=st.dictionaries(texts, st.sampled_from(Rule), max_size=3),
    steering=st.none() | st.builds(SteeringFacts, texts, numbers, numbers, texts),
    workspace=texts,
    tools=st.lists(texts, max_size=4).map(tuple),
    model=texts,
    weights=st.integers(0, 65535),
)
ids = st.lists(st.integers(0, 2**31 - 1), max_size=30).map(lambda found: np.array(found, np.int32))
histories = st.lists(ids, min_size=1, max_size=8)


@given(ids, facts)
def test_what_was_set_and_said_is_read_again(tokens, given_facts):
    data = encode_kept(Kept(tokens, given_facts))
    found = decode_kept(data, "x")
    assert found.facts == given_facts == decode_facts(data, "x")
    assert found.ids.tolist() == tokens.tolist()


@given(ids, facts, st.data())
def test_a_trailer_that_is_cut_or_changed_is_refused(tokens, given_facts, data):
    whole = encode_kept(Kept(tokens, given_facts))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(FileFormatError):
        decode_kept(whole[:cut], "x")
    changed = bytearray(whole)
    changed[cut] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FileFormatError):
        decode_kept(bytes(changed), "x")


@given(st.binary(max_size=200))
def test_no_bytes_upset_the_readers(data):
    for begun in (data, b"WDA\x01" + data):
        for decode in (decode_kept, decode_facts):
            with contextlib.suppress(FileFormatError):
                decode(begun, "x")
    for flags in range(256):
        split_trailers(data, flags)
    records_in(b"WDJ1" + data)


@pytest.mark.parametrize(
    "document",
    [
        b"[1]",
        b'{"later": [1, {"x": 2}]}',
        b"{}",
    ],
)
def test_keys_that_are_not_known_are_left_alone_and_those_that_lack_have_defaults(document):
    assert decode_facts(raw_trailer(document), "x") == SessionFacts()


@pytest.mark.parametrize(
    "document",
    [
        b'{"thinking": "hard"}',
        b'{"tools": "read"}',
        b'{"weights": true}',
        b'{"steering": []}',
        b'{"steering": {"ffn": "1"}}',
        b'{"approvals": {"bash": "perhaps"}}',
        b"{",
        b"\xff",
        b"[" * 5000,
    ],
)
def test_what_is_set_wrongly_is_told(document):
    with pytest.raises(FileFormatError, match="cannot be read"):
        decode_facts(raw_trailer(document), "x")


def raw_trailer(document: bytes) -> bytes:
    return b"WDA\x01" + len(document).to_bytes(4, "little") + bytes(4) + document + bytes(4)


@given(texts, st.binary(max_size=30), st.booleans())
def test_titles_are_found_behind_a_map_of_tools(title, rest, has_tools):
    tools = encode_tools({"call": b"<words>", "other": b""}) if has_tools else b""
    flags = HAS_TITLE | HAS_FACTS | (HAS_TOOLS if has_tools else 0)
    data = tools + encode_title(title) + rest
    assert split_trailers(data, flags) == Trailers(title, rest)
    assert split_trailers(data, flags & ~HAS_FACTS) == Trailers(title, None)


def test_a_title_that_no_file_could_hold_becomes_one():
    assert split_trailers(encode_title("a\ud800b"), HAS_TITLE).title == "a?b"


def test_trailers_behind_a_damaged_map_are_not_looked_for():
    tools = encode_tools({"call": b"<words>"})
    assert split_trailers(tools[:-1] + encode_title("x"), HAS_TOOLS | HAS_TITLE) == Trailers()
    assert split_trailers(b"", HAS_TOOLS | HAS_TITLE) == Trailers()


# the journal


@given(histories, st.data())
def test_a_journal_gives_the_last_state_over_the_file_of_any_time(tmp_path_factory, history, data):
    """`kept` is how old the file is; records that it has already are read over it again."""
    path = tmp_path_factory.mktemp("journal") / "x.journal"
    journal = Journal(path, "x")
    for before, now in itertools.pairwise(history):
        journal.append(before, now)
    journal.close()
    kept = data.draw(st.integers(0, len(history) - 1))
    again = Journal(path, "x") if path.exists() else None
    found = replayed(history[kept], again.records if again else [])
    assert found.tolist() == history[-1].tolist()
    if again:
        again.close()


@given(histories, st.data())
def test_a_journal_that_was_cut_gives_an_earlier_state_and_goes_on(tmp_path_factory, history, data):
    path = tmp_path_factory.mktemp("journal") / "x.journal"
    journal, ends = Journal(path, "x"), []
    for before, now in itertools.pairwise(history):
        journal.append(before, now)
        ends.append(journal.end)
    whole = path.read_bytes()
    journal.close()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    again = Journal(path, "x")
    found = replayed(history[0], again.records)
    expected = max((index + 1 for index, end in enumerate(ends) if end <= cut), default=0)
    assert found.tolist() == history[expected].tolist()
    again.append(found, np.append(found, np.int32(7)))
    again.close()
    last = Journal(path, "x")
    assert replayed(history[0], last.records).tolist() == [*found.tolist(), 7]
    last.close()


def test_a_journal_of_other_tokens_changes_nothing(tmp_path: Path):
    journal = Journal(tmp_path / "x.journal", "x")
    journal.append(np.array([1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32))
    records = records_in((tmp_path / "x.journal").read_bytes())
    journal.close()
    for other in ([9, 9, 9], [1, 2], [1, 2, 3, 5, 6]):
        found = replayed(np.array(other, np.int32), records).tolist()
        assert found in (other, [1, 2, 3, 4])
    assert replayed(np.array([9, 9, 9], np.int32), records).tolist() == [9, 9, 9]


def test_a_file_that_is_no_journal_is_not_written_over(tmp_path: Path):
    path = tmp_path / "x.journal"
    path.write_bytes(b"precious")
    with pytest.raises(FileFormatError, match="move it away"):
        Journal(path, "x")
    assert path.read_bytes() == b"precious"
    path.write_bytes(b"WD")  # its own beginning, cut off
    Journal(path, "x").close()


def test_links_are_not_followed(tmp_path: Path):
    (tmp_path / "x.journal").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"x\.journal"):
        Journal(tmp_path / "x.journal", "x")
    assert not (tmp_path / "other").exists()


def test_a_journal_is_had_by_one(tmp_path: Path):
    journal = Journal(tmp_path / "x.journal", "3fa9")
    with pytest.raises(SessionInUseError, match="session 3fa9 is open in another process"):
        Journal(tmp_path / "x.journal", "3fa9")
    journal.close()
    journal.close()
    Journal(tmp_path / "x.journal", "3fa9").close()
    assert not (tmp_path / "x.journal").exists()


def test_the_checksum_is_that_of_the_bytes():
    assert checksum(np.array([1], np.int32)) == zlib.crc32(b"\x01\0\0\0")
