"""A model cut into several GGUF files: their names, and whether they belong together.

Two signs of a split are known: the `split.*` keys (llama.cpp's gguf-split and our writer) and the name
`x-00001-of-00003.gguf`.
Promises: `check_shards` accepts only the complete, ordered shards of one model. Opens no file; does not know about
tensor contents.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.gguf.cursor import refusal
from whitedwarf.gguf.header import Header

NUMBER_KEY = "split.no"
COUNT_KEY = "split.count"
TENSORS_KEY = "split.tensors.count"
ARCHITECTURE_KEY = "general.architecture"
NAME_PATTERN = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
MAX_SHARDS = 99_999  # five digits in a name
SHARD_ADVICE = (
    "Put all shards of one model, with their original names, in one folder; download again what does not fit."
)


@dataclass(frozen=True, slots=True)
class ShardName:
    """What a file name says: `number` counts from 1."""

    prefix: str
    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.prefix}-{self.number:05}-of-{self.count:05}.gguf"

    def siblings(self) -> list["ShardName"]:
        return [ShardName(self.prefix, number, self.count) for number in range(1, self.count + 1)]


@dataclass(frozen=True, slots=True)
class SplitKeys:
    """What a file's metadata says: `number` counts from 0."""

    number: int
    count: int
    num_tensors: int | None


def parse_shard_name(name: str) -> ShardName | None:
    """The parts of a shard's name; None for any other name."""
    match = NAME_PATTERN.fullmatch(name)
    if match is None:
        return None
    shard = ShardName(match["prefix"], int(match["number"]), int(match["count"]))
    return shard if 1 <= shard.number <= shard.count else None


def split_keys(path: Path, header: Header) -> SplitKeys | None:
    """The `split.*` keys; None where the file has none. Raises FileFormatError for senseless ones."""
    if COUNT_KEY not in header.metadata and NUMBER_KEY not in header.metadata:
        return None
    count = _integer(path, header, COUNT_KEY, MAX_SHARDS)
    number = _integer(path, header, NUMBER_KEY, MAX_SHARDS)
    num_tensors = _integer(path, header, TENSORS_KEY, 1 << 31) if TENSORS_KEY in header.metadata else None
    if count > 1 and number >= count:
        raise refusal(path, f"key {NUMBER_KEY!r}", str(number), f"less than {COUNT_KEY} = {count}", SHARD_ADVICE)
    return SplitKeys(number, max(count, 1), num_tensors)


def _integer(path: Path, header: Header, key: str, most: int) -> int:
    value = header.metadata.get(key, "nothing")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    raise refusal(path, f"key {key!r}", f"{value!r:.80}", f"an integer from 0 to {most}")


def shard_paths(path: Path, name: ShardName | None, keys: SplitKeys | None) -> list[Path]:
    """All files of the model that `path` belongs to, in order. Raises FileFormatError where one is missing."""
    count = keys.count if keys else (name.count if name else 1)
    if count == 1 and (name is None or name.count == 1):
        return [path]
    if name is None:
        expected = f"a name like 'model-{keys.number + 1 if keys else 1:05}-of-{count:05}.gguf'"
        raise refusal(path, "file name", f"{path.name!r} for a shard of {count}", expected, SHARD_ADVICE)
    if count != name.count:
        raise refusal(path, f"key {COUNT_KEY!r}", str(count), f"{name.count}, as the name says", SHARD_ADVICE)
    paths = [path.parent / str(sibling) for sibling in name.siblings()]
    missing = [sibling.name for sibling in paths if not sibling.exists()]
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        found = f"{count - len(missing)} of {count} shards in {path.parent}; missing: {shown}"
        raise refusal(path, "shards", found, f"all {count}", SHARD_ADVICE)
    return paths


def check_shards(paths: Sequence[Path], headers: Sequence[Header]) -> None:
    """Refuse files that are not the shards of one model in order. Raises FileFormatError."""
    keys = [split_keys(path, header) for path, header in zip(paths, headers, strict=True)]
    for index, path in enumerate(paths):
        _check_place(path, index, len(paths), keys[0], keys[index])
        _check_same(paths[0], path, headers[0], headers[index])
    _check_tensors(paths, headers, keys[0])


def _check_place(path: Path, index: int, count: int, first: SplitKeys | None, keys: SplitKeys | None) -> None:
    if (first is None) != (keys is None):
        found = "no split keys" if keys is None else "split keys"
        raise refusal(path, "shard", f"{found}, unlike the first shard", "shards of one model", SHARD_ADVICE)
    if first is None or keys is None:
        return
    if keys.count != count:
        raise refusal(
            path, f"key {COUNT_KEY!r}", str(keys.count), f"{count}: this shard is another model's", SHARD_ADVICE
        )
    if keys.number != index and count > 1:
        expected = f"{index}, the place its name gives it: the shards were renamed or mixed up"
        raise refusal(path, f"key {NUMBER_KEY!r}", str(keys.number), expected, SHARD_ADVICE)
    if keys.num_tensors != first.num_tensors:
        expected = f"{first.num_tensors} as in the first shard: this shard is another model's"
        raise refusal(path, f"key {TENSORS_KEY!r}", str(keys.num_tensors), expected, SHARD_ADVICE)


def _check_same(first_path: Path, path: Path, first: Header, header: Header) -> None:
    architecture = first.metadata.get(ARCHITECTURE_KEY)
    other = header.metadata.get(ARCHITECTURE_KEY, architecture)
    if str(other) != str(architecture):
        expected = f"{architecture!r:.80} as in {first_path.name}: this shard is another model's"
        raise refusal(path, f"key {ARCHITECTURE_KEY!r}", f"{other!r:.80}", expected, SHARD_ADVICE)


def _check_tensors(paths: Sequence[Path], headers: Sequence[Header], keys: SplitKeys | None) -> None:
    owners: dict[str, Path] = {}
    for path, header in zip(paths, headers, strict=True):
        for name in header.tensors:
            if name in owners:
                found = f"it also in {owners[name].name}"
                raise refusal(path, f"tensor {name!r}", found, "every tensor in one shard", SHARD_ADVICE)
            owners[name] = path
    if keys is not None and keys.num_tensors is not None and keys.num_tensors != len(owners):
        expected = f"{keys.num_tensors} as {TENSORS_KEY} says"
        raise refusal(paths[0], "tensors", f"{len(owners)} in all shards", expected, SHARD_ADVICE)
