"""Importance matrices: both formats there and back, what they mean, and files that are none."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gguf
from fakes.gguf_files import write_model
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.gguf.imatrix import Imatrix, ImatrixEntry, ImatrixFormat, read_imatrix, write_imatrix
from whitedwarf.gguf.imatrix_dat import dat_pieces, parse_dat
from whitedwarf.gguf.imatrix_gguf import read_gguf_imatrix

GATE = "blk.0.ffn_gate_exps.weight"
DENSE = "blk.0.attn_q_a.weight"
MEANS = np.arange(12, dtype=np.float32).reshape(3, 4)


def packed(*entries: tuple[bytes, int, list[float]], trailer: bytes = b"") -> bytes:
    """A .dat written by hand."""
    parts = [struct.pack("<i", len(entries))]
    for name, calls, values in entries:
        parts.append(struct.pack("<i", len(name)) + name + struct.pack("<ii", calls, len(values)))
        parts.append(struct.pack(f"<{len(values)}f", *values))
    return b"".join(parts) + trailer


def file_of(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "i.dat"
    path.write_bytes(data)
    return path


def three_experts(counts: tuple[int, ...] = (2, 0, 5)) -> Imatrix:
    entry = ImatrixEntry(MEANS.astype(np.float64), np.array(counts))
    return Imatrix({GATE: entry, DENSE: ImatrixEntry.of_means(np.float32([1, 2, 3]))}, "my.txt", 7, 512)


def test_a_dat_is_the_bytes_that_the_original_writes(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    write_imatrix(path, three_experts(), "dat")
    gate = [0.0, 0.5, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.6, 1.8, 2.0, 2.2]
    trailer = struct.pack("<ii", 7, 6) + b"my.txt"
    assert path.read_bytes() == packed((GATE.encode(), 1, gate), (DENSE.encode(), 1, [1.0, 2.0, 3.0]), trailer=trailer)


@pytest.mark.parametrize("format", ["dat", "gguf"])
def test_weights_are_means_by_expert_in_either_format(tmp_path: Path, format: ImatrixFormat) -> None:
    path = tmp_path / "i.bin"
    write_imatrix(path, three_experts(), format)
    found = read_imatrix(path)
    assert found.names == (GATE, DENSE)
    assert (found.dataset, found.chunks) == ("my.txt", 7)
    for expert, means in enumerate([MEANS[0] / 2, np.ones(4), MEANS[2] / np.float32(5)]):
        weights = found.weights(GATE, 4, expert, 3)
        assert weights is not None
        assert weights.dtype == np.float32
        np.testing.assert_array_equal(weights, means.astype(np.float32))
    np.testing.assert_array_equal(found.weights(DENSE, 3), [1, 2, 3])
    assert found.weights("blk.1.attn_q_a.weight", 3) is None


entry_values = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.floats(0, 2.0**100, width=32)
)
matrices = st.builds(
    Imatrix,
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(lambda name: "\0" not in name),
        entry_values.map(lambda sums: ImatrixEntry(sums, np.arange(len(sums)))),
        min_size=1,
        max_size=4,
    ),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=9),
    st.integers(0, 2**31 - 1),
)


@given(matrices)
def test_a_dat_reads_back_bit_equal(imatrix: Imatrix) -> None:
    data = b"".join(dat_pieces(imatrix))
    found = parse_dat("i.dat", data)
    assert b"".join(dat_pieces(found)) == data
    assert (found.names, found.dataset, found.chunks) == (imatrix.names, imatrix.dataset, imatrix.chunks)
    for name, entry in imatrix.entries.items():
        np.testing.assert_array_equal(found.entries[name].means().reshape(-1), entry.means().reshape(-1))


@given(matrices)
@settings(max_examples=30)
def test_a_gguf_reads_back_bit_equal(tmp_path_factory: pytest.TempPathFactory, imatrix: Imatrix) -> None:
    path = tmp_path_factory.mktemp("imatrix") / "i.gguf"
    write_imatrix(path, imatrix, "gguf")
    found = read_imatrix(path)
    write_imatrix(path.with_name("again.gguf"), found, "gguf")
    assert path.with_name("again.gguf").read_bytes() == path.read_bytes()
    for name, entry in imatrix.entries.items():
        np.testing.assert_array_equal(found.entries[name].sums, entry.sums)
        np.testing.assert_array_equal(found.entries[name].counts, entry.counts)


def test_llama_cpps_layout_written_by_the_gguf_package_is_read(tmp_path: Path) -> None:
    path = tmp_path / "imatrix.gguf"
    writer = gguf.GGUFWriter(path, arch="")
    writer.add_string("general.type", "imatrix")
    writer.add_array("imatrix.datasets", ["old.txt", "calibration.txt"])
    writer.add_uint32("imatrix.chunk_count", 45)
    writer.add_uint32("imatrix.chunk_size", 512)
    for suffix, values in {
        "in_sum2": np.float32([[2, 4], [9, 9], [3, 6]]),
        "counts": np.float32([[2], [0], [3]]),
        "in_sum": np.float32([[-1, 1], [0, 0], [2, 2]]),
    }.items():
        writer.add_tensor(f"{GATE}.{suffix}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read_imatrix(path)
    assert (found.dataset, found.chunks, found.chunk_size, found.names) == ("calibration.txt", 45, 512, (GATE,))
    rows = [found.weights(GATE, 2, expert, 3) for expert in range(3)]
    np.testing.assert_array_equal(np.array(rows), [[1, 2], [1, 1], [1, 2]])


def test_our_gguf_is_read_by_the_gguf_package(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    write_imatrix(path, three_experts(), "gguf")
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    np.testing.assert_array_equal(tensors[f"{GATE}.in_sum2"], MEANS)
    np.testing.assert_array_equal(tensors[f"{GATE}.counts"], [[2], [0], [5]])
    assert reader.fields["general.type"].contents() == "imatrix"
    assert reader.fields["imatrix.datasets"].contents() == ["my.txt"]
    assert reader.fields["imatrix.chunk_size"].contents() == 512


@pytest.mark.parametrize(
    "name",
    [
        f"{GATE}.expert.1",
        f"{GATE}.expert_1",
        "layers.0.ffn.experts.1.w1.weight",
        "layers.0.ffn.experts.1.w1.weight.expert.1",
    ],
)
def test_an_experts_own_entry_is_found_before_that_of_all(name: str) -> None:
    entries = {GATE: ImatrixEntry.of_means(MEANS), name: ImatrixEntry.of_means(np.float32([9, 9, 9, 9]))}
    found = Imatrix(entries)
    np.testing.assert_array_equal(found.weights(GATE, 4, 1, 3), [9, 9, 9, 9])
    np.testing.assert_array_equal(found.weights(GATE, 4, 2, 3), MEANS[2])


def test_groups_of_the_attentions_output_are_averaged() -> None:
    found = Imatrix({"blk.2.attn_output_a.weight": ImatrixEntry(np.float32([[2, 4, 6, 8]]), np.array([2]))})
    np.testing.assert_array_equal(found.weights("blk.2.attn_output_a.weight", 2), [2, 3])
    np.testing.assert_array_equal(found.weights("blk.2.attn_output_a.weight", 4), [1, 2, 3, 4])
    with pytest.raises(FileFormatError, match="expected 3"):
        found.weights("blk.2.attn_output_a.weight", 3)


def test_one_row_serves_all_experts() -> None:
    found = Imatrix({GATE: ImatrixEntry.of_means(MEANS[1])})
    np.testing.assert_array_equal(found.weights(GATE, 4, 2, 3), MEANS[1])


def test_other_names_of_dense_tensors_are_found() -> None:
    names = {"layers.0.attn.wkv.weight": 1, "blk.1.attn_kv_latent.weight": 2, "head.weight": 3}
    found = Imatrix({name: ImatrixEntry.of_means(np.float32([value])) for name, value in names.items()})
    for name, value in {"blk.0.attn_kv.weight": 1, "blk.1.attn_kv.weight": 2, "output.weight": 3}.items():
        assert found.weights(name, 1) == np.float32([value])


@pytest.mark.parametrize(("columns", "experts"), [(5, 3), (4, 4), (12, 2), (3, 4)])
def test_another_models_entry_is_refused(columns: int, experts: int) -> None:
    entries = {GATE: ImatrixEntry(MEANS, np.array([1, 1, 1])), f"{GATE}.expert.1": ImatrixEntry.of_means(MEANS[0])}
    if (columns, experts) in ((12, 2),):
        entries.pop(GATE)
    with pytest.raises(FileFormatError, match="expected"):
        Imatrix(entries).weights(GATE, columns, 1 if columns == 12 else 0, experts)


def test_sums_of_several_calls_are_divided() -> None:
    found = parse_dat("i.dat", packed((b"a", 4, [2.0, 8.0]), (b"b", 0, [2.0, 8.0]), (b"c", -3, [1.0])))
    assert [found.entries[name].means().tolist() for name in "abc"] == [[[0.5, 2.0]], [[2.0, 8.0]], [[1.0]]]
    assert (found.chunks, found.dataset) == (0, "")


ENTRY = (b"a", 1, [1.0, 2.0])
WHOLE = packed(ENTRY, (b"b", 1, [3.0]), trailer=struct.pack("<ii", 3, 2) + b"ds")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "end of the file at byte 0"),
        (b"\1\0", "end of the file"),
        (struct.pack("<i", 0) + bytes(99), "0 entries"),
        (struct.pack("<i", -1) + bytes(99), "-1 entries"),
        (struct.pack("<i", 2**31 - 1) + bytes(99), "2147483647 entries"),
        (struct.pack("<ii", 1, -5) + bytes(99), "-5 bytes"),
        (struct.pack("<ii", 1, 2**31 - 1) + bytes(99), "2147483647 bytes"),
        (packed((b"", 1, [1.0])) + bytes(8), "empty name"),
        (packed((b"\xff\xfe", 1, [1.0])), "no UTF-8"),
        (packed(ENTRY, ENTRY), "second time"),
        (packed((b"a", 1, [])) + bytes(8), "0 values"),
        (struct.pack("<ii", 1, 1) + b"a" + struct.pack("<ii", 1, -2) + bytes(9), "-2 values"),
        (struct.pack("<ii", 1, 1) + b"a" + struct.pack("<ii", 1, 2**30) + bytes(9), "1073741824 values"),
        (packed((b"a", 1, [1.0, float("nan")])), "NaN"),
        (packed((b"a", 1, [1.0, float("inf")])), "NaN"),
        (packed((b"a", 1, [1.0, -1.0])), "negative"),
        (packed(ENTRY, trailer=struct.pack("<ii", 3, -1)), "-1 bytes"),
        (packed(ENTRY, trailer=struct.pack("<ii", 3, 9) + b"short"), "9 bytes"),
        (packed(ENTRY, trailer=struct.pack("<ii", 3, 1) + b"aa"), "1 bytes behind"),
        (b"<!DOCTYPE html>" * 9, "entries"),
    ],
)
def test_what_is_no_dat_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_imatrix(file_of(tmp_path, data))


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_dat_is_refused_unless_only_the_trailer_is_missing(length: int) -> None:
    values_end = len(WHOLE) - 10
    if length in (values_end, values_end + 4):
        assert parse_dat("i.dat", WHOLE[:length]).names == ("a", "b")
        return
    with pytest.raises(FileFormatError, match=r"i\.dat: found"):
        parse_dat("i.dat", WHOLE[:length])


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: WHOLE[:20] + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = parse_dat("i.dat", data)
    except FileFormatError:
        return
    assert all(np.isfinite(entry.means()).all() for entry in found.entries.values())


@given(st.data())
@settings(max_examples=60)
def test_any_damage_to_a_gguf_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("imatrix") / "i.gguf"
    write_imatrix(path, three_experts(), "gguf")
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.integers(1, len(raw)))])
    try:
        found = read_gguf_imatrix(path)
    except FileFormatError:
        return
    assert all(np.isfinite(entry.means()).all() for entry in found.entries.values())


def test_a_model_is_no_importance_matrix(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    with pytest.raises(FileFormatError, match="maybe a model"):
        read_imatrix(path)


def write_gguf(path: Path, tensors: dict[str, np.ndarray], **keys: object) -> Path:
    writer = gguf.GGUFWriter(path, arch="")
    writer.add_string("general.type", "imatrix")
    for key, value in keys.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_int32)(f"imatrix.{key}", value)  # type: ignore[operator]
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


ONE = {"a.in_sum2": np.float32([[1, 2]]), "a.counts": np.float32([[1]])}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"b.something": np.float32([1])}, "no entry"),
        ({"a.in_sum2": np.float32([1])}, "only one of"),
        ({"a.counts": np.float32([1]), "b.in_sum2": np.float32([1])}, "only one of"),
        (ONE | {"a.counts": np.float16([[1]])}, "type F16"),
        (ONE | {"a.counts": np.float32([[1], [2], [3]])}, "2 sums and 3 counts"),
        (ONE | {"a.in_sum2": np.float32([[1, np.nan]])}, "NaN"),
        (ONE | {"a.in_sum2": np.float32([[1, -np.inf]])}, "NaN"),
        (ONE | {"a.counts": np.float32([[-1]])}, "negative"),
        (ONE | {"a.counts": np.float32([[1e30]])}, "too large"),
    ],
)
def test_what_is_no_gguf_imatrix_is_refused(tmp_path: Path, tensors: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_imatrix(write_gguf(tmp_path / "i.gguf", tensors))


@pytest.mark.parametrize("keys", [{"chunk_count": -1}, {"chunk_count": 1.5}, {"datasets": 1}])
def test_metadata_of_wrong_types_is_refused(tmp_path: Path, keys: dict[str, object]) -> None:
    with pytest.raises(FileFormatError, match=r"imatrix\."):
        read_imatrix(write_gguf(tmp_path / "i.gguf", ONE, **keys))


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_imatrix(tmp_path / "none.dat")
    with pytest.raises(FileFormatError, match="not a regular file"):
        read_imatrix(tmp_path)


@pytest.mark.parametrize("format", ["dat", "gguf"])
def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, format: ImatrixFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(tmp_path, b"before")
    broken = Imatrix({"a": ImatrixEntry(np.array([[1e300, 1.0]]), np.array([1]))})
    with pytest.raises(WhitedwarfError, match="beyond"):
        write_imatrix(path, broken, format)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
