"""Sizes as people write them, and what a model's files take."""

import re
from pathlib import Path

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(i?)b?|b)\s*", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
MOST_BYTES = 1 << 60
_SHARD = re.compile(r"(.*-)[0-9]{5}(-of-[0-9]{5}\.gguf)", re.DOTALL)


def size_of(value: object) -> int:
    """Bytes of 4096, "512 MiB" (powers of 1024) or "20 GB" (powers of 1000); ValueError for anything else."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        step = 1024 if found[3] else 1000
        size = float(found[1]) * step ** _POWERS[(found[2] or "").lower()]
        value = round(size) if size <= MOST_BYTES else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_BYTES:
        raise ValueError(f'expected a size such as "20 GB" or a whole number of bytes, got {value!r}')
    return value


def files_bytes(path: Path) -> int:
    """What a model's file takes on disk, all shards of a split one; 0 where there is none (yet)."""
    found = _SHARD.fullmatch(path.name)
    shards = [path]
    if found:
        ending, beginning = found[2], found[1]
        try:
            names = [other for other in path.parent.iterdir() if _SHARD.fullmatch(other.name)]
        except OSError:
            return 0
        shards = [other for other in names if other.name.startswith(beginning) and other.name.endswith(ending)]
    try:
        return sum(shard.stat().st_size for shard in shards)
    except OSError:
        return 0
