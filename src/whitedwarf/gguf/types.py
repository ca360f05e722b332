"""GGUF's numbers: value types, tensor types and their block sizes (spec: model.md 4.1 and 5.1)."""

from dataclasses import dataclass
from enum import IntEnum


class ValueType(IntEnum):
    """Type ids of metadata values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


class GgmlType(IntEnum):
    """Type ids of tensors that this project reads."""

    F32 = 0
    F16 = 1
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ2_XXS = 16
    I32 = 26
    BF16 = 30
    MXFP4 = 39

    @property
    def block_size(self) -> int:
        """Elements per block."""
        return BLOCKS[self].elements

    @property
    def block_bytes(self) -> int:
        """Bytes per block."""
        return BLOCKS[self].size_bytes

    def row_bytes(self, num_elements: int) -> int:
        """Bytes of one row; the row must be a whole number of blocks."""
        blocks, rest = divmod(num_elements, self.block_size)
        if rest:
            raise ValueError(f"{self.name} rows come in blocks of {self.block_size}; got {num_elements} elements")
        return blocks * self.block_bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Size of one quantisation block."""

    elements: int
    size_bytes: int


BLOCKS: dict[GgmlType, Block] = {
    GgmlType.F32: Block(1, 4),
    GgmlType.F16: Block(1, 2),
    GgmlType.BF16: Block(1, 2),
    GgmlType.I32: Block(1, 4),
    GgmlType.Q8_0: Block(32, 34),
    GgmlType.Q2_K: Block(256, 84),
    GgmlType.Q3_K: Block(256, 110),
    GgmlType.Q4_K: Block(256, 144),
    GgmlType.Q5_K: Block(256, 176),
    GgmlType.Q6_K: Block(256, 210),
    GgmlType.IQ2_XXS: Block(256, 66),
    GgmlType.MXFP4: Block(32, 17),
}
