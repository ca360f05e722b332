"""Makes converted.jsonl.xz: conversations that came out of the protocol vectors, with the prompts they must give.

Left out are the few in which a text spells an image token beside real images: the dump does not say which is which.

Usage: python make_converted.py SHARED/vectors/recipe
"""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

IMAGE = "<｜image｜>"
KEPT = ("conversation", "prompt", "special_ranges", "image_sources", "n_tokens", "token_ids_sha256")


def is_ambiguous(message: dict[str, Any]) -> bool:
    """Whether a spelt image token may be text or the place of an image."""
    images = message.get("images", [])
    return bool(images) and message["content"].count(IMAGE) > len(images)


def main(vectors: Path) -> None:
    """Write the file beside this script."""
    lines = []
    for protocol in ("chat", "responses", "messages"):
        for line in (vectors / f"{protocol}.jsonl").read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            expected = case["expect"]
            if expected["ok"] and not any(map(is_ambiguous, expected["conversation"]["messages"])):
                kept = {key: expected[key] for key in KEPT if key in expected}
                lines.append(json.dumps({"id": case["id"], "version": expected["model_version"], **kept}))
    text = "".join(line + "\n" for line in lines)
    Path(__file__).with_name("converted.jsonl.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
