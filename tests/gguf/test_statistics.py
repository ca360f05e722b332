"""Statistics of tensors: equal to those of the whole decoded tensor, however it is cut and however many threads."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gguf
from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, write_model
from whitedwarf.gguf import statistics as statistics_module
from whitedwarf.gguf import verify as verify_module
from whitedwarf.gguf.header import TensorInfo
from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.statistics import StatisticsWatcher, Sums, TensorStatistics, sums_of, table
from whitedwarf.gguf.types import GgmlType
from whitedwarf.gguf.verify import verify


def statistics_of(values: np.ndarray, num_threads: int = 1) -> TensorStatistics:
    data = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint8)
    info = TensorInfo("w", GgmlType.F32, values.shape, 0, data.nbytes)
    with StatisticsWatcher(num_threads) as watcher:
        for start in range(0, data.nbytes, 4096):
            watcher.look_at(info, data[start : start + 4096])
        (row,) = watcher.results()
    return row


def test_they_are_those_of_the_gguf_packages_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "PIECE_BYTES", 1000)
    monkeypatch.setattr(statistics_module, "PIECE_ELEMENTS", 512)
    types = [type_ for type_ in GgmlType if type_ is not GgmlType.I32]
    plan = [PlannedTensor(type_.name, type_, (7, 2 * type_.block_size)) for type_ in types]
    (path,) = write_model(tmp_path / "m.gguf", SMALL_METADATA, plan)
    with open_gguf(path) as model, StatisticsWatcher(3) as watcher:
        assert verify(model, watchers=[watcher]) == []
        rows = watcher.results()
    theirs = gguf.GGUFReader(path).tensors
    for row, tensor, planned in zip(rows, theirs, plan, strict=True):
        if planned.type is GgmlType.F32:
            values = np.array(tensor.data, np.float64)
        else:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        assert (row.name, row.type, row.shape) == (tensor.name, tensor.tensor_type.name, planned.shape)
        assert (row.min, row.max) == (values.min(), values.max())
        assert (row.num_nan, row.num_infinite) == (0, 0)
        assert row.zero_share == np.mean(values == 0)
        assert row.mean == pytest.approx(values.mean(), rel=1e-12, abs=1e-300)
        assert row.rms == pytest.approx(np.sqrt(np.mean(values**2)), rel=1e-12)


@given(st.lists(st.floats(width=32, allow_subnormal=False), min_size=1, max_size=40), st.integers(1, 4))
@settings(deadline=None)
def test_what_is_no_number_is_counted_and_left_out(values: list[float], num_threads: int) -> None:
    array = np.array(values * 100, np.float32)
    row = statistics_of(array, num_threads)
    finite = array[np.isfinite(array)].astype(np.float64)
    assert (row.num_nan, row.num_infinite) == (np.isnan(array).sum(), np.isinf(array).sum())
    assert row.zero_share == np.mean(array == 0)
    if not len(finite):
        assert (row.min, row.max, row.mean, row.rms) == (None,) * 4
        return
    assert (row.min, row.max) == (finite.min(), finite.max())
    assert row.mean == pytest.approx(finite.mean(), rel=1e-6, abs=1e-9 * np.abs(finite).max())
    assert row.rms == pytest.approx(np.sqrt(np.mean(finite**2)), rel=1e-9)
    assert row == statistics_of(array, 1)


def test_large_values_do_not_overflow() -> None:
    row = statistics_of(np.full(1000, 3e38, np.float32))
    assert row.rms == pytest.approx(3e38, rel=1e-6)
    assert row.mean == pytest.approx(3e38, rel=1e-6)


def test_integers_are_exact(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    with open_gguf(path) as model, StatisticsWatcher() as watcher:
        verify(model, watchers=[watcher])
        rows = {row.name: row for row in watcher.results()}
        ids = model.data("blk.0.ffn_gate_tid2eid.weight").view("<i4")
    row = rows["blk.0.ffn_gate_tid2eid.weight"]
    assert (row.min, row.max, row.mean) == (ids.min(), ids.max(), pytest.approx(ids.mean()))
    assert list(rows) == [tensor.name for tensor in SMALL_PLAN]


def test_sums_add_up_in_any_cut() -> None:
    data = np.random.default_rng(0).integers(0, 256, 64 * 34, np.uint8)
    whole, empty = sums_of(data, GgmlType.Q8_0), Sums()
    parts = [sums_of(data[i : i + 340], GgmlType.Q8_0) for i in range(0, len(data), 340)]
    assert sum(parts, empty).num_values == whole.num_values == 2048
    assert (sum(parts, empty).low, sum(parts, empty).high) == (whole.low, whole.high)


def test_the_table_has_a_line_for_each_tensor_and_json_knows_no_nan() -> None:
    rows = [statistics_of(np.array([[0, 1.5], [-2, 0]])), statistics_of(np.full(3, np.nan))]
    title, first, second = table(rows)
    assert title.split() == ["tensor", "type", "shape", "min", "max", "mean", "rms", "zeros", "NaN", "inf"]
    assert first.split() == ["w", "F32", "2x2", "-2", "1.5", "-0.125", "1.25", "50.00%", "0", "0"]
    assert second.split() == ["w", "F32", "3", "-", "-", "-", "-", "0.00%", "3", "0"]
    assert json.loads(json.dumps([asdict(row) for row in rows], allow_nan=False))[0]["rms"] == 1.25
