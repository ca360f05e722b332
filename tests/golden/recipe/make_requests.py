"""Copies the workshop's request and parse vectors (made with deepseek-recipe 0.2.0) beside this script, compressed."""

import gzip
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[3] / "shared" / "vectors" / "recipe"

if __name__ == "__main__":
    for name in ("chat", "responses", "messages", "parse"):
        text = (SOURCE / f"{name}.jsonl").read_bytes()
        (HERE / f"{name}.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    (HERE / "image_tokens.jsonl").write_bytes((SOURCE / "image_tokens.jsonl").read_bytes())
