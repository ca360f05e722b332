"""Lists of digests: true for a model however it is split, and they name what differs."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, tensor_bytes, write_model
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.digests import Digests, DigestWatcher, compare, list_text, read_list
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.verify import verify

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.none() | st.text(st.characters(codec="utf-8"), min_size=1)


def digests_of(path: Path) -> Digests:
    watcher = DigestWatcher()
    with open_gguf(path) as model:
        verify(model, watchers=[watcher])
        return watcher.digests(model)


def test_a_tensors_digest_is_that_of_its_bytes(tmp_path: Path) -> None:
    found = digests_of(write_model(tmp_path / "m.gguf")[0])
    for seed, tensor in enumerate(SMALL_PLAN):
        assert found[tensor.name] == hashlib.sha256(tensor_bytes(tensor, seed)).hexdigest()
    assert len(found) == len(SMALL_PLAN) + 1


@pytest.mark.parametrize("num_shards", [2, 5])
def test_a_split_model_has_the_same_digests(tmp_path: Path, num_shards: int) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    parts = write_model(tmp_path / "m.gguf", num_shards=num_shards)
    assert list(digests_of(whole).items()) == list(digests_of(parts[-1]).items())


def test_every_change_of_the_header_changes_its_digest(tmp_path: Path) -> None:
    first, *others = SMALL_PLAN
    name = (ValueType.STRING, "other")
    variants = [
        (SMALL_METADATA, SMALL_PLAN),
        ({**SMALL_METADATA, "general.name": name}, SMALL_PLAN),
        ({**SMALL_METADATA, "deepseek4.block_count": (ValueType.UINT64, 2)}, SMALL_PLAN),
        (SMALL_METADATA, [first._replace(type=GgmlType.BF16), *others]),
        (SMALL_METADATA, [first._replace(shape=(64, 3)), *others]),
        (SMALL_METADATA, [first._replace(name="token_embd"), *others]),
        (SMALL_METADATA, [*others, first]),
    ]
    found = {digests_of(write_model(tmp_path / "m.gguf", keys, plan)[0])[None] for keys, plan in variants}
    assert len(found) == len(variants)


@given(st.dictionaries(NAMES, HEX, min_size=1))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, digests: dict[str | None, str]) -> None:
    path = tmp_path_factory.mktemp("list") / "m.sha256"
    path.write_bytes(list_text(digests).encode())
    assert read_list(path) == digests


def test_a_list_edited_on_windows_and_with_capitals_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.sha256"
    path.write_bytes(b"# mine\r\n\r\n" + b"AB" * 32 + b"  tensor w\r\n")
    assert read_list(path) == {"w": "ab" * 32}


def test_differences_name_what_differs() -> None:
    found = {None: "a", "same": "b", "changed": "c", "new": "d"}
    wanted = {None: "x", "same": "b", "changed": "y", "gone": "z"}
    findings = list(compare(found, wanted))
    assert [(finding.severity, finding.subject) for finding in findings] == [
        ("error", "header"),
        ("error", "changed"),
        ("error", "gone"),
        ("error", "new"),
    ]
    assert "its SHA-256 is c, in the list it is y" in findings[1].text
    assert list(compare(found, found)) == []


def test_a_tensor_that_cannot_be_read_completely_has_no_digest(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    watcher = DigestWatcher()
    with open_gguf(path) as model:
        with path.open("r+b") as file:
            file.truncate(model.tensors["blk.0.ffn_down_exps.weight"].offset_bytes + 10)
        verify(model, watchers=[watcher])
        found = watcher.digests(model)
    assert set(found) == {None, *(tensor.name for tensor in SMALL_PLAN[:-1])}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "lists nothing"),
        (b"hello\n", "line 1: found 'hello'; expected 64 hexadecimal digits"),
        (b"#\n" + b"a" * 64 + b"  model.gguf\n", "line 2:"),
        (b"a" * 64 + b" tensor w\n", "sha256sum -c"),
        ((b"a" * 64 + b"  header\n") * 2, "line 2: header a second time"),
        (b"\xff\xfe", "is no text"),
    ],
)
def test_what_is_no_list_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "m.sha256"
    path.write_bytes(text)
    with pytest.raises(FileFormatError) as caught:
        read_list(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_list_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_list(tmp_path / "m.sha256")
    with pytest.raises(UsageError, match="no such file"):
        read_list(tmp_path)
