"""GGUF-like tokenizer metadata from a Hugging Face tokenizer.json, the way converters write it."""

import json
from pathlib import Path

V41_RELABELLED = {128799: "<｜System｜>", 129264: "<｜image｜>", 129279: "<｜image2｜>"}
"""What the V4.1 vocabulary calls three tokens of V4's (tests/golden/recipe/README.md)."""

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def metadata_from_tokenizer_json(path: Path) -> dict[str, object]:
    """The `tokenizer.ggml.*` keys; added tokens become control (special) or user-defined (not special)."""
    source = json.loads(path.read_text(encoding="utf-8"))
    vocab: dict[str, int] = source["model"]["vocab"]
    size = 1 + max([*vocab.values(), *(token["id"] for token in source["added_tokens"])])
    tokens = [f"[PAD{i}]" for i in range(size)]
    types = [UNUSED] * size
    for token, token_id in vocab.items():
        tokens[token_id], types[token_id] = token, NORMAL
    for added in source["added_tokens"]:
        tokens[added["id"]], types[added["id"]] = added["content"], CONTROL if added["special"] else USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in source["model"]["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "joyai-llm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
    }


def added_tokens(path: Path) -> dict[str, int]:
    """Spelling to id of every added token."""
    return {token["content"]: token["id"] for token in json.loads(path.read_text(encoding="utf-8"))["added_tokens"]}


def without_added_tokens(path: Path) -> str:
    """The same tokenizer.json as text, with no added tokens: what plain text is measured against."""
    return json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"added_tokens": []})


def v41_tokenizer_json(path: Path) -> str:
    """V4's tokenizer.json as V4.1 has it."""
    source = json.loads(path.read_text(encoding="utf-8"))
    for token in source["added_tokens"]:
        token["content"] = V41_RELABELLED.get(token["id"], token["content"])
    return json.dumps(source)


def v41_metadata(metadata: dict[str, object]) -> dict[str, object]:
    """V4's metadata as V4.1 has them."""
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    relabelled = [V41_RELABELLED.get(token_id, token) for token_id, token in enumerate(tokens)]
    return metadata | {"tokenizer.ggml.tokens": relabelled}
