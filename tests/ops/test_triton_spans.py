"""Pooling, the indexer's choice and attention over spans in Triton: those of the reference, whatever the passes."""

import numpy as np
import pytest

pytest.importorskip("triton")

from ops.cases import REFERENCE, Draw, assert_close, assert_same_bits
from ops.span_tables import MEMORY, TableOps
from ops.test_cpu_spans import ROPE, Part, Sequence, inputs, new_sequences, poolings, run_pass
from ops.torch_cases import from_device
from whitedwarf.ops.base import RowKind
from whitedwarf.ops.rows import encode_rows
from whitedwarf.ops.spans import closed_windows

OPS = TableOps()
PASSES = (
    [[5, 1], [1, 1], [1, 0], [1, 1], [1, 1]],  # few queries, most of them decodes
    [[17, 0], [1, 2]],  # more at once
    [[65, 1], [1, 1]],  # a span whose rows the host stores
)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [4, 16])
@pytest.mark.parametrize("passes", PASSES)
def test_spans_are_the_reference_s(ratio, passes):
    number = len(passes[0])
    ours, truth = new_sequences(number, ratio, RowKind.F32, MEMORY), new_sequences(number, ratio, RowKind.F32)
    for counts in passes:
        few = sum(counts) < 16
        assert_close(run_pass(OPS, ours, counts), run_pass(REFERENCE, truth, counts), 1e-4 if few else 6e-3)


def pool_pass(sequence: Sequence, count: int) -> None:
    """What `run_pass` pools, and nothing else."""
    part = Part(sequence, slice(0, count), sequence.position)
    sequence.layers[0].make_room(sequence.position, count, sequence.ratio)
    turns = Draw.seeded(3).turns(2000, ROPE)[closed_windows([part], sequence.ratio)]
    for pool, how in poolings(sequence.ratio, sequence.kv, sequence.key).items():
        values, gates = (inputs([part], how.ape.shape[1], salt + 10 * pool.value) for salt in (1, 2))
        OPS.pool(OPS.spans([part]), 0, pool, values, gates, how, turns)
    sequence.position += count


@pytest.mark.parametrize(
    ("ratio", "kind"), [(4, RowKind.PACKED_KV), (16, RowKind.F16), (16, RowKind.PACKED_KV), (16, RowKind.PACKED_KV_F16)]
)
def test_pooled_rows_are_rounded_as_their_format_says(ratio, kind):
    [plain], [rounded] = new_sequences(1, ratio, RowKind.F32, MEMORY), new_sequences(1, ratio, kind, MEMORY)
    for sequence in (plain, rounded):
        for count in (15, 1):
            pool_pass(sequence, count)
    for store, other, format in zip(
        plain.layers[0].compressors, rounded.layers[0].compressors, (rounded.kv, rounded.key), strict=False
    ):
        floats = from_device(store.rows.upto(16 // ratio)).view(np.float32)
        assert_same_bits(from_device(other.rows.upto(16 // ratio)), encode_rows(floats, format))
