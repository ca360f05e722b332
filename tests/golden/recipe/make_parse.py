"""Copies the workshop's parse vectors (made with deepseek-recipe 0.2.0) beside this script, compressed."""

import gzip
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[3] / "shared" / "vectors" / "recipe" / "parse.jsonl"

if __name__ == "__main__":
    (HERE / "parse.jsonl.gz").write_bytes(gzip.compress(SOURCE.read_bytes(), mtime=0))
