"""The kernels one by one: what each case reads and computes, and what the limits make of it. Nothing is timed."""

import json

import pytest

from whitedwarf._native import Kernels
from whitedwarf.bench.kernels import LINEAR_TYPES, PARTS, KernelSample, Sizes, cases, measure_case
from whitedwarf.bench.kernels_report import KernelsReport
from whitedwarf.bench.limits import Peak, measured_peaks, peak_of
from whitedwarf.bench.machine import Machine
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.cpu import CpuOps

SMALL = Sizes(
    hidden=256,
    inner=256,
    experts_used=2,
    heads=2,
    head_dim=128,
    rope_dims=32,
    window=8,
    picked=4,
    index_heads=2,
    index_dim=64,
    keys=16,
    linear_bytes=1 << 12,
    experts=4,
)


def sample(**changed: object) -> KernelSample:
    fields = {"part": "linear", "name": "Q8_0", "rows": 1, "bytes_read": 100, "operations": 1000, "arithmetic": "int8"}
    fields["is_cached"] = False
    return KernelSample(**{**fields, "level": "avx2", "seconds": (1.0, 2.0, 3.0), **changed})  # type: ignore[arg-type]


def test_every_kernel_runs_at_every_level() -> None:
    ops = [CpuOps(1, level=level) for level in Kernels.available_levels()]
    found = [one for case in cases(PARTS, (1, 3), SMALL) for one in measure_case(case, ops, 2, 1.0)]
    assert {one.part for one in found} == set(PARTS)
    assert len(found) == len(ops) * 2 * (len(LINEAR_TYPES) + 3 + 3)
    assert all(len(one.seconds) == 2 and min(one.seconds) > 0 for one in found)


def test_a_product_reads_its_weights_once_and_computes_with_every_row() -> None:
    for case in cases(("linear",), (1, 70), SMALL):
        row_bytes = GgmlType[case.name].row_bytes(256)
        out = case.bytes_read // row_bytes
        assert out == SMALL.linear_bytes // row_bytes
        assert case.operations == 2 * case.rows * out * 256


def test_experts_read_each_picked_one_once() -> None:
    expert_bytes = 2 * 256 * GgmlType.IQ2_XXS.row_bytes(256) + 256 * GgmlType.Q2_K.row_bytes(256)
    first, many = list(cases(("experts",), (1, 100), SMALL))[:2]
    assert first.bytes_read == 2 * expert_bytes
    assert many.bytes_read == 4 * expert_bytes
    assert many.operations == 100 * first.operations


def test_a_case_that_takes_long_is_repeated_less_often() -> None:
    case = next(cases(("quantise",), (1,), SMALL))
    (found,) = measure_case(case, [CpuOps(1)], 9, budget_s=1e-12)
    assert len(found.seconds) == 3


def test_the_limit_that_binds_is_the_slower_one() -> None:
    peaks = [Peak("avx2", "int8", 1000.0), Peak("avx512", "int8", 5000.0), Peak("amx", "int8", 50_000.0)]
    report = KernelsReport(
        Machine("cpu", 1, "avx2", 50.0), peaks, [sample(), sample(operations=4000), sample(level="x")]
    )
    assert [report.limit_s(one) for one in report.samples] == [(2.0, "memory"), (4.0, "int8"), (2.0, "memory")]
    assert report.of_limit(report.samples[0]) == 1.0
    assert report.limit_s(sample(is_cached=True)) == (1.0, "int8")
    assert report.bars()[0].shares == {"avx2": 2.0, "x": 1.0}
    assert len(report.table().splitlines()) == 5
    assert json.loads(json.dumps(report.document()))["samples"][1]["binds"] == "int8"
    assert [peak_of(peaks, level, "int8") for level in ("scalar", "avx2", "avx512", "amx", "x")] == [
        *[None, 1000.0, 5000.0, 50_000.0, None],
    ]


def test_peaks_are_counted_with_any_number_of_threads() -> None:
    for threads in (1, 3):
        kernels = Kernels(threads)
        for level, arithmetic in map(str.split, Kernels.peaks()):
            one, two = (kernels.run_peak(level, arithmetic, rounds) for rounds in (1, 2))
            assert (one > 0, two) == (True, 2 * one)
    assert {peak.level for peak in measured_peaks(Kernels(1), rounds=2)} == {
        name.split()[0] for name in Kernels.peaks()
    }


def test_an_unknown_peak_is_told() -> None:
    with pytest.raises(ValueError, match="no z80 int8"):
        Kernels(1).run_peak("z80", "int8", 1)
    with pytest.raises(ValueError, match="rounds must be 1"):
        Kernels(1).run_peak("z80", "int8", 0)
