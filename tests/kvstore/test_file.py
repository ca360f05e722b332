"""The bytes around the payload, against a reader and a writer made from the fact sheets."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.growth import TIMES, check_growth
from fakes.kv_files import FakeFile, tool_map
from kvstore.folder import LAYOUT
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.dsv4 import read_payload
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.tool_map import decode_tools, encode_tools, occurring


def on_disk(folder: Path, data: bytes) -> Path:
    path = folder / f"{FakeFile().name}.kv"
    path.write_bytes(data)
    return path


def test_every_header_field_is_read_from_its_place(tmp_path):
    fake = FakeFile(reason=2, flags=6, quant=4, hits=9, model=1, ours=b"\x03\x34\x12")
    with KvFile(on_disk(tmp_path, fake.to_bytes())) as file:
        header = file.header
        assert (header.quant_bits, header.reason, header.flags, header.model_id) == (4, Reason.CONTINUED, 6, 1)
        assert (header.num_tokens, header.hits, header.context_length) == (9, 9, 600)
        assert (header.created, header.last_used) == (fake.created, fake.used)
        assert (header.payload_kind, header.row_kind, header.model_mark) == (2, 3, 0x1234)
        assert (file.text(), file.payload()) == (fake.text, fake.payload())
        assert header.to_bytes() == fake.to_bytes()[:48]


def test_an_unknown_reason_is_read_as_unknown(tmp_path):
    with KvFile(on_disk(tmp_path, FakeFile(reason=7).to_bytes())) as file:
        assert file.header.reason is Reason.UNKNOWN


def test_files_of_the_older_ds4_are_read(tmp_path):
    with KvFile(on_disk(tmp_path, FakeFile(abi=0, version=1).to_bytes())) as file:
        assert read_payload(file.payload(), LAYOUT, "x").num_tokens == 9


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"magic": b"KVX"}, "magic"),
        ({"kvc_version": 2}, "version"),
        ({"quant": 3}, "routed quant bits: found 3; expected 2 or 4"),
        ({"header_tokens": 0}, "token count"),
        ({"abi": 1}, "payload ABI"),
    ],
)
def test_a_wrong_header_field_is_named(tmp_path, change, problem):
    with pytest.raises(FileFormatError, match=problem):
        KvFile(on_disk(tmp_path, FakeFile(**change).to_bytes()))


def test_a_file_shorter_than_it_says_is_refused_at_every_length(tmp_path):
    data = FakeFile().to_bytes()
    for length in [*range(60), len(data) // 2, len(data) - 1]:
        with pytest.raises(FileFormatError):
            KvFile(on_disk(tmp_path, data[:length]))


@given(at=st.integers(0, 51), value=st.integers(0, 255))
def test_any_change_of_the_head_is_read_or_refused(tmp_path_factory, at, value):
    data = bytearray(FakeFile(flags=1, trailer=tool_map((b"call_1", b"<x>"))).to_bytes())
    data[at] = value
    path = on_disk(tmp_path_factory.getbasetemp(), bytes(data))
    with contextlib.suppress(FileFormatError), KvFile(path) as file:
        file.text(), file.payload(), file.tools()


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.kv")
    with pytest.raises(FileFormatError, match="regular file"):
        KvFile(tmp_path / "pipe.kv")
    (tmp_path / "link.kv").symlink_to(on_disk(tmp_path, FakeFile().to_bytes()))
    with pytest.raises(OSError, match="link"):
        KvFile(tmp_path / "link.kv")


def test_a_file_that_is_cut_while_open_is_refused(tmp_path):
    path = on_disk(tmp_path, FakeFile().to_bytes())
    with KvFile(path) as file:
        os.truncate(path, 100)
        with pytest.raises(FileFormatError, match="less than it had"):
            file.payload()


def test_the_tool_map_has_the_bytes_of_the_sheet():
    blocks = {"call_0a": b"<DSML>\xff", "toolu_b": b"y"}
    expected = tool_map((b"call_0a", b"<DSML>\xff"), (b"toolu_b", b"y"))
    assert encode_tools(blocks) == expected
    assert decode_tools(expected) == blocks


def test_ids_that_no_reader_takes_are_not_written():
    for bad in ("", "x" * 257):
        with pytest.raises(ValueError, match="256 bytes"):
            encode_tools({bad: b"block"})


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"KTM",
        tool_map((b"a", b"block"), version=2),
        tool_map((b"a", b"block"), count=400_001),
        b"KTX" + tool_map((b"a", b"block"))[3:],
        tool_map((b"", b"block"), (b"b", b"block")),
        tool_map((b"x" * 257, b"block")),
        tool_map((b"\xff", b"block")),
    ],
)
def test_a_map_that_is_wrong_from_its_start_is_empty(damaged):
    assert decode_tools(damaged) == {}


def test_of_a_damaged_map_the_entries_before_the_damage_are_kept():
    whole = tool_map((b"a", b"one"), (b"b", b"two"))
    for length in range(len(whole) - 12, len(whole)):
        assert decode_tools(whole[:length]) == {"a": b"one"}
    assert decode_tools(tool_map((b"a", b"one"), count=9)) == {"a": b"one"}


def test_what_follows_the_map_is_another_trailer_s_business():
    assert decode_tools(tool_map((b"a", b"one")) + b"title") == {"a": b"one"}


@given(data=st.binary(max_size=60))
def test_no_bytes_upset_the_reader_of_the_map(data):
    decode_tools(b"KTM\x01" + data)


BLOCKS = st.dictionaries(st.sampled_from("abcdef"), st.binary(max_size=3).map(lambda raw: bytes(b % 2 for b in raw)))


@given(BLOCKS, st.binary(max_size=12).map(lambda raw: bytes(b % 2 for b in raw)))
def test_a_block_occurs_wherever_it_stands_in_the_text(blocks, text):
    present = {
        block for block in blocks.values() if block and (block in text or (text.endswith(block[:-1]) and block[1:]))
    }
    assert occurring(blocks, text).keys() == {key for key, block in blocks.items() if block in present}


def test_many_blocks_in_order_cost_one_look_at_the_text():
    def look(number_of_blocks):
        blocks = {f"call_{number}": b"<calls>%d%s</calls>" % (number, b"x" * 100) for number in range(number_of_blocks)}
        assert occurring(blocks, b" and then ".join(blocks.values())) == blocks

    check_growth(look, 2_000, TIMES * 2_000)
