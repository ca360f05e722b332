"""What `inspect` says, and that it says something about any file."""

import json
from pathlib import Path

from fakes.gguf_files import RawTensor, architecture, key, raw_file, string, write_model
from whitedwarf.gguf.inspect import render, size_text, summary
from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType, ValueType

METADATA: TypedMetadata = {
    "general.architecture": (ValueType.STRING, "deepseek4"),
    "general.name": (ValueType.STRING, "tiny"),
    "deepseek4.block_count": (ValueType.UINT32, 4),
    "deepseek4.context_length": (ValueType.UINT32, 1_048_576),
    "deepseek4.rope.freq_base": (ValueType.FLOAT32, 10000.0),
    "deepseek4.attention.head_count": (ValueType.UINT32, 64),
    "deepseek4.attention.compress_ratios": (ValueType.ARRAY, [0, 4, 128, 4]),
    "deepseek4.attention.indexer.top_k": (ValueType.UINT32, 512),
    "deepseek4.expert_count": (ValueType.UINT32, 256),
    "deepseek4.hyper_connection.count": (ValueType.UINT32, 4),
}
PLAN = [
    PlannedTensor("a", GgmlType.F32, (64,)),
    PlannedTensor("b", GgmlType.Q2_K, (4, 256)),
    PlannedTensor("c", GgmlType.Q2_K, (8, 256)),
]
TEXT = """\
file          {path}
name          tiny
architecture  deepseek4
GGUF          version 3, 10 keys, 3 tensors
layers        layers 4
context       tokens 1048576, rope base 10000
attention     heads 64, compression 0 (x1) 4 (x2) 128 (x1)
indexer       top k 512
experts       experts 256
streams       streams 4
size          1.23 KiB of tensors, {file_size} in all

type        tensors           elements          size  bits/weight
Q2_K              2              3,072    1008 bytes         2.62
F32               1                 64     256 bytes        32.00"""


def test_the_text_shows_shape_sizes_and_types(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf", METADATA, PLAN)
    with open_gguf(path) as model:
        assert render(summary(model)) == TEXT.format(path=path, file_size=size_text(path.stat().st_size))


def test_the_dictionary_survives_json(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", METADATA, PLAN, num_shards=2)
    with open_gguf(paths[0]) as model:
        values = summary(model).to_json()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["paths"] == [str(path) for path in paths]
    assert values["file_bytes"] == sum(path.stat().st_size for path in paths)
    assert values["types"] == [
        {"type": "Q2_K", "num_tensors": 2, "num_elements": 3072, "size_bytes": 1008, "bits_per_weight": 2.625},
        {"type": "F32", "num_tensors": 1, "num_elements": 64, "size_bytes": 256, "bits_per_weight": 32.0},
    ]
    assert values["groups"]["attention"] == {"heads": 64, "compression": {"0": 1, "4": 2, "128": 1}}


def test_a_split_model_counts_its_shards(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", METADATA, PLAN, num_shards=2)
    with open_gguf(paths[1]) as model:
        assert f"{paths[0]} and 1 more shards" in render(summary(model))


def test_a_file_that_says_nothing_is_summarised(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_file())
    with open_gguf(path) as model:
        text = render(summary(model))
        json.dumps(summary(model).to_json())
    assert "architecture  unknown" in text
    assert "0 keys, 0 tensors" in text


def test_strange_values_neither_crash_it_nor_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    keys = [
        architecture(),
        key(b"general.name", ValueType.STRING, string(b"\x1b[31mred\r\nname")),
        key(b"deepseek4.rope.freq_base", ValueType.FLOAT32, b"\0\0\xc0\x7f"),
        key(b"deepseek4.block_count", ValueType.STRING, string(b"many")),
        key(b"deepseek4.expert_count", ValueType.ARRAY, b"\x08\0\0\0" + b"\1" + bytes(7) + string(b"x")),
    ]
    path.write_bytes(raw_file(keys, [RawTensor()], bytes(32)))
    with open_gguf(path) as model:
        text = render(summary(model))
        json.dumps(summary(model).to_json(), allow_nan=False)
    assert "name          \\x1b[31mred\\r\\nname\n" in text
    assert "rope base nan" in text
    assert "layers many" in text
    assert "experts 1 values" in text
