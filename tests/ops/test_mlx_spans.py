"""The operations over all spans of a pass on MLX: those of the reference, and the same bits as each sequence alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import REFERENCE, assert_close, assert_same_bits
from ops.mlx_cases import MLX, OPS
from ops.test_cpu_spans import SPANS, Part, by_position, new_sequences, run_pass
from whitedwarf.ops.base import RowKind

pytestmark = pytest.mark.mlx
MEMORY = OPS.memory(0)


def even(passes: list[list[int]]) -> tuple[int, list[list[int]]]:
    number = max(map(len, passes))
    return number, [[*counts, *[0] * (number - len(counts))] for counts in passes]


@pytest.mark.parametrize("ratio", [4, 16])
@given(passes=st.lists(SPANS, min_size=1, max_size=4))
@settings(max_examples=6)
def test_spans_are_the_reference_s(ratio, passes):
    number, passes = even(passes)
    ours = new_sequences(number, ratio, RowKind.F32, MEMORY)
    truth = new_sequences(number, ratio, RowKind.F32)
    for counts in passes:
        assert_close(run_pass(MLX, ours, counts), run_pass(REFERENCE, truth, counts), 1e-4)


@pytest.mark.parametrize("ratio", [4, 16])
@pytest.mark.parametrize("kind", [RowKind.F32, RowKind.PACKED_KV])
@given(passes=st.lists(SPANS, min_size=1, max_size=4))
@settings(max_examples=5)
def test_neither_company_nor_chunks_change_a_bit_of_a_sequence(ratio, kind, passes):
    number, passes = even(passes)
    together = new_sequences(number, ratio, kind, MEMORY)
    outputs = [run_pass(MLX, together, counts) for counts in passes]
    lengths = [sum(counts) for counts in zip(*passes, strict=True)]
    others = zip(new_sequences(number, ratio, kind, MEMORY), lengths, strict=True)
    alone = [run_pass(MLX, [other], [length]) for other, length in others if length]
    assert_same_bits(by_position(passes, outputs, number), np.concatenate(alone))


def test_a_layer_without_pooled_rows_is_refused():
    [sequence] = new_sequences(1, 16, RowKind.F32, MEMORY)
    spans = MLX.spans([Part(sequence, slice(0, 1), 0)])
    queries, weights = np.zeros((1, 4, 32), np.float32), np.zeros((1, 4), np.float32)
    with pytest.raises(ValueError, match="keeps no pooled keys"):
        MLX.pick(spans, 0, queries, weights, sequence.key, np.array([9], np.int32), 9, 6)
