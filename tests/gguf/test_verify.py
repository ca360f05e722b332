"""Verify finds every number that is none, in whatever piece and block it lies, and nothing else."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, tensor_bytes, write_model
from whitedwarf.gguf import verify as verify_module
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.header import TensorInfo
from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType
from whitedwarf.gguf.verify import Finding, bad_blocks, verify
from whitedwarf.gguf.writer import GgufWriter

TABLE = "blk.0.ffn_gate_tid2eid.weight"


def verified(
    path: Path, type_: GgmlType, data: np.ndarray, name: str = "w", keys: TypedMetadata = SMALL_METADATA
) -> list[Finding]:
    shape = (data.nbytes // type_.block_bytes * type_.block_size,)
    with GgufWriter(path, keys, [(name, type_, shape)]) as writer:
        writer.write(name, data)
    with open_gguf(path) as model:
        return verify(model)


def test_a_sound_file_has_no_findings_and_progress_ends_at_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    with open_gguf(write_model(tmp_path / "m.gguf", num_shards=2)[0]) as model:
        assert verify(model, lambda done, total: calls.append((done, total))) == []
    total = sum(tensor.size_bytes for tensor in SMALL_PLAN)
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


@given(
    st.sampled_from([type_ for type_ in GgmlType if type_ is not GgmlType.I32]), st.integers(0, 2**32 - 1), st.data()
)
@settings(deadline=None, max_examples=150)
def test_a_block_is_bad_exactly_when_it_decodes_to_something_not_finite(
    type_: GgmlType, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, 6 * type_.block_bytes, dtype=np.uint8)
    if data.draw(st.booleans()):
        raw[rng.integers(0, len(raw), 8)] = rng.choice([0x7C, 0xFC, 0x7F, 0xFF, 0xFE], 8)
    info = TensorInfo("w", type_, (6 * type_.block_size,), 0, len(raw))
    bad = bad_blocks(info, raw)
    with np.errstate(all="ignore"):
        values = decode(raw, type_, (6, type_.block_size))
    is_finite = np.isfinite(values).all(axis=1)
    if type_ is not GgmlType.MXFP4:  # there a very large scale is bad even if this block's codes are small
        np.testing.assert_array_equal(bad, ~is_finite)
    assert is_finite[~bad].all()


def test_a_bad_scale_is_counted_and_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PIECE_BYTES", 100)  # two blocks of 34 bytes
    data = np.zeros((7, 34), np.uint8)
    data[[3, 6], 1] = 0x7C
    (finding,) = verified(tmp_path / "m.gguf", GgmlType.Q8_0, data.reshape(-1))
    assert (finding.severity, finding.subject) == ("error", "w")
    assert "2 of 7 Q8_0 blocks have a scale that is NaN or infinite; the first is number 3" in finding.text
    assert str(finding).startswith("error: w: 2 of 7")


def test_a_value_that_is_no_number_is_counted_and_placed(tmp_path: Path) -> None:
    values = np.array([0, 1, np.nan, -np.inf, 2], np.float32)
    (finding,) = verified(tmp_path / "m.gguf", GgmlType.F32, values)
    assert "2 of 5 F32 values are NaN or infinite; the first is number 2" in finding.text


def test_an_expert_that_does_not_exist_is_found(tmp_path: Path) -> None:
    ids = np.array([0, 7, 8, -1, 3, 1 << 30], "<i4")
    (finding,) = verified(tmp_path / "m.gguf", GgmlType.I32, ids, TABLE)
    assert "3 of 6 I32 values name no expert from 0 to 7; the first is number 2" in finding.text


def test_other_integers_are_not_expert_ids(tmp_path: Path) -> None:
    assert verified(tmp_path / "m.gguf", GgmlType.I32, np.array([-1], "<i4"), "other") == []


def test_expert_ids_without_a_known_count_are_a_note(tmp_path: Path) -> None:
    (finding,) = verified(tmp_path / "m.gguf", GgmlType.I32, np.array([99], "<i4"), TABLE, {})
    assert finding.severity == "note"
    assert "expert_count" in finding.text


def test_bytes_behind_the_last_tensor_are_a_note(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    with path.open("ab") as file:
        file.write(bytes(1000))
    with open_gguf(path) as model:
        (finding,) = verify(model)
    assert finding.severity == "note"
    assert "follow the last tensor" in finding.text


def test_a_file_that_shrinks_meanwhile_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    with open_gguf(path) as model:
        with path.open("r+b") as file:
            file.truncate(model.tensors["blk.0.attn_sinks.weight"].offset_bytes)
        findings = verify(model)
    assert [finding.subject for finding in findings] == ["blk.0.attn_sinks.weight", "blk.0.ffn_down_exps.weight"]
    assert all("became shorter" in finding.text for finding in findings)


def test_every_type_is_looked_at_in_every_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PIECE_BYTES", 300)
    plan = [PlannedTensor(type_.name, type_, (5, type_.block_size)) for type_ in GgmlType]
    (path,) = write_model(tmp_path / "m.gguf", SMALL_METADATA, plan)
    with open_gguf(path) as model:
        assert verify(model) == []
        assert all(
            model.data(tensor.name).tobytes() == tensor_bytes(tensor, i).tobytes() for i, tensor in enumerate(plan)
        )
