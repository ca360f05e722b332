"""Values of GGUF metadata: their Python form, reading and writing them (spec: model.md 4.1).

Promises: what `encode_value` writes, `read_value` gives back. Arrays of numbers and booleans are read-only numpy
arrays, arrays of strings are lists of str, arrays of arrays are lists. Strings are valid UTF-8; anything else is
refused, because no tokenizer and no terminal could use it. An empty array of arrays is written back as an empty array
of strings; nothing else changes.
Does not know which keys a model needs.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from whitedwarf.gguf.cursor import STRING_OVERHEAD_BYTES, UINT32, UINT64, Cursor
from whitedwarf.gguf.types import ValueType

ArrayValue: TypeAlias = (
    np.ndarray | Sequence[bool] | Sequence[int] | Sequence[float] | Sequence[str] | Sequence["ArrayValue"]
)
MetadataValue: TypeAlias = bool | int | float | str | ArrayValue
TypedMetadata: TypeAlias = Mapping[str, tuple[ValueType, MetadataValue]]

SCALARS: dict[ValueType, struct.Struct] = {
    ValueType.UINT8: struct.Struct("<B"),
    ValueType.INT8: struct.Struct("<b"),
    ValueType.UINT16: struct.Struct("<H"),
    ValueType.INT16: struct.Struct("<h"),
    ValueType.UINT32: UINT32,
    ValueType.INT32: struct.Struct("<i"),
    ValueType.FLOAT32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<B"),
    ValueType.UINT64: UINT64,
    ValueType.INT64: struct.Struct("<q"),
    ValueType.FLOAT64: struct.Struct("<d"),
}
DTYPES: dict[ValueType, np.dtype] = {
    ValueType.UINT8: np.dtype("u1"),
    ValueType.INT8: np.dtype("i1"),
    ValueType.UINT16: np.dtype("<u2"),
    ValueType.INT16: np.dtype("<i2"),
    ValueType.UINT32: np.dtype("<u4"),
    ValueType.INT32: np.dtype("<i4"),
    ValueType.FLOAT32: np.dtype("<f4"),
    ValueType.BOOL: np.dtype("?"),
    ValueType.UINT64: np.dtype("<u8"),
    ValueType.INT64: np.dtype("<i8"),
    ValueType.FLOAT64: np.dtype("<f8"),
}
ELEMENT_TYPES: dict[np.dtype, ValueType] = {dtype: type_ for type_, dtype in DTYPES.items()}
ARRAY_OVERHEAD_BYTES = UINT32.size + UINT64.size
# No known file nests arrays at all; the bounds keep a hostile one from costing more than it weighs.
MAX_ARRAY_DEPTH = 4
MAX_NESTED_ARRAYS = 1 << 16


def read_type(cursor: Cursor, what: str) -> ValueType:
    """A value type id."""
    number = cursor.uint32(what)
    try:
        return ValueType(number)
    except ValueError:
        cursor.refuse(f"{what} {number}", f"one of 0 to {max(ValueType)}")


def read_value(cursor: Cursor, type_: ValueType) -> MetadataValue:
    """The value at the cursor, which moves behind it. Raises FileFormatError."""
    if type_ is ValueType.ARRAY:
        return _read_array(cursor, depth=1)
    if type_ is ValueType.STRING:
        return cursor.string("text")
    number = cursor.take(SCALARS[type_], f"{type_.name} value")
    if type_ is not ValueType.BOOL:
        return number
    if number not in (0, 1):
        cursor.refuse(f"boolean byte {number}", "0 or 1")
    return bool(number)


def _read_array(cursor: Cursor, depth: int) -> ArrayValue:
    type_ = read_type(cursor, "array element type")
    if type_ is ValueType.STRING:
        return cursor.strings(cursor.count("array length", STRING_OVERHEAD_BYTES))
    if type_ is ValueType.ARRAY:
        return _read_nested(cursor, depth)
    dtype = DTYPES[type_]
    count = cursor.count("array length", dtype.itemsize)
    if type_ is not ValueType.BOOL:
        return cursor.numbers(dtype, count, "array")
    flags = cursor.numbers(np.dtype("u1"), count, "array")
    if count and flags.max() > 1:
        cursor.refuse(f"boolean byte {flags.max()} in an array", "0 or 1")
    return flags.view(np.bool_)


def _read_nested(cursor: Cursor, depth: int) -> ArrayValue:
    if depth == MAX_ARRAY_DEPTH:
        cursor.refuse("more levels of arrays inside arrays", f"at most {MAX_ARRAY_DEPTH}")
    count = cursor.count("array length", ARRAY_OVERHEAD_BYTES)
    if count > MAX_NESTED_ARRAYS:
        cursor.refuse(f"an array of {count} arrays", f"at most {MAX_NESTED_ARRAYS}")
    return [_read_array(cursor, depth + 1) for _ in range(count)]


def encode_string(text: str) -> bytes:
    """Length and UTF-8 bytes."""
    raw = text.encode()
    return UINT64.pack(len(raw)) + raw


def encode_value(type_: ValueType, value: MetadataValue) -> bytes:
    """The bytes of a value without its type id. Raises ValueError where the value does not fit the type.

    Plain lists of numbers become BOOL, INT32 (INT64 where needed) or FLOAT32 arrays; numpy arrays keep their type.
    """
    if type_ is ValueType.ARRAY:
        return _encode_array(value, depth=1)
    if isinstance(value, str) or type_ is ValueType.STRING:
        if isinstance(value, str) and type_ is ValueType.STRING:
            return encode_string(value)
        raise ValueError(f"{value!r} is not a value of type {type_.name}")
    if type_ is ValueType.BOOL and value not in (True, False):
        raise ValueError(f"{value!r} is not a boolean")
    try:
        return SCALARS[type_].pack(value)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{value!r} is not a value of type {type_.name}: {error}") from error


def _encode_array(value: MetadataValue, depth: int) -> bytes:
    if depth > MAX_ARRAY_DEPTH:
        raise ValueError(f"more than {MAX_ARRAY_DEPTH} levels of arrays inside arrays")
    if isinstance(value, np.ndarray):
        return _encode_numbers(value)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError(f"{value!r} is not an array")
    if all(isinstance(item, str) for item in value):  # also the empty list
        return _array_head(ValueType.STRING, len(value)) + b"".join(encode_string(str(item)) for item in value)
    if any(isinstance(item, (Sequence, np.ndarray)) for item in value):
        return _array_head(ValueType.ARRAY, len(value)) + b"".join(_encode_array(item, depth + 1) for item in value)
    return _encode_numbers(_packed(value))


def _packed(numbers: Sequence[object]) -> np.ndarray:
    values = np.array(numbers)
    if values.dtype.kind == "f":
        return values.astype("<f4")
    if values.dtype.kind != "i":
        return values
    narrow = values.astype("<i4")
    return narrow if np.array_equal(narrow, values) else values


def _encode_numbers(values: np.ndarray) -> bytes:
    type_ = ELEMENT_TYPES.get(values.dtype.newbyteorder("<"))
    if type_ is None or values.ndim != 1:
        raise ValueError(f"an array of {values.dtype} with shape {values.shape} is not a metadata array")
    return _array_head(type_, len(values)) + values.astype(DTYPES[type_]).tobytes()


def _array_head(type_: ValueType, count: int) -> bytes:
    return UINT32.pack(type_) + UINT64.pack(count)
