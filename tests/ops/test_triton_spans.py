"""Pooling, the indexer's choice and attention over spans in Triton: those of the reference, whatever the passes."""

import pytest

pytest.importorskip("triton")

from ops.cases import REFERENCE, assert_close
from ops.span_tables import MEMORY, TableOps
from ops.test_cpu_spans import new_sequences, run_pass
from whitedwarf.ops.base import RowKind

OPS = TableOps()
PASSES = (
    [[5, 1], [1, 1], [1, 0], [1, 1], [1, 1]],
    [[64, 3], [1, 1], [2, 65]],
    [[70, 0], [1, 30], [1, 1]],
    [[17, 9, 20], [1, 1, 1], [1, 1, 1], [0, 1, 0]],
)


@pytest.mark.parametrize("ratio", [4, 16])
@pytest.mark.parametrize("passes", PASSES)
def test_spans_are_the_reference_s(ratio, passes):
    number = len(passes[0])
    ours, truth = new_sequences(number, ratio, RowKind.F32, MEMORY), new_sequences(number, ratio, RowKind.F32)
    for counts in passes:
        few = sum(counts) < 16
        assert_close(run_pass(OPS, ours, counts), run_pass(REFERENCE, truth, counts), 1e-4 if few else 6e-3)
