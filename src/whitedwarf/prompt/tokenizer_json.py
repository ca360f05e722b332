"""DeepSeek's published tokenizer.json as a Tokenizer, and V4.1's made of V4's: three tokens have other names.

Promises: FileFormatError, naming the file, for any other tokenizer: it would be cut differently without anyone
noticing. Does not know GGUF files (gguf/convert_tokenizer.py writes those). Spec: recipe.md 10.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import SPLIT_PATTERNS, Tokenizer
from whitedwarf.prompt.vocabulary import MERGES_KEY, MODEL_KEY, PRE_KEY, PRE_TOKENIZERS, TOKENS_KEY, TYPES_KEY

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_MOST_TOKENS = 1 << 20
_RELABELLED = {128_799: "<｜System｜>", 129_264: "<｜image｜>", 129_279: "<｜image2｜>"}


class PublishedTokenizers:
    """The tokenizers of both versions, each made when it is first asked for."""

    def __init__(self, path: Path) -> None:
        """FileFormatError unless `path` is V4's tokenizer.json."""
        self._path = path
        self._metadata = _metadata(path)

    def of(self, version: ModelVersion) -> Tokenizer:
        """That version's tokenizer."""
        return self._v4 if version is ModelVersion.V4 else self._v41

    @cached_property
    def _v4(self) -> Tokenizer:
        return self._built(self._metadata)

    @cached_property
    def _v41(self) -> Tokenizer:
        tokens: Sequence[str] = self._metadata[TOKENS_KEY]
        relabelled = [_RELABELLED.get(token_id, token) for token_id, token in enumerate(tokens)]
        return self._built({**self._metadata, TOKENS_KEY: relabelled})

    def _built(self, metadata: Mapping[str, Any]) -> Tokenizer:
        try:
            return Tokenizer.from_metadata(metadata)
        except FileFormatError as error:
            raise FileFormatError(f"{self._path}: {error}") from error


def _metadata(path: Path) -> dict[str, Any]:
    """As a GGUF file has it."""
    source = _read(path)
    model = _member(path, source, "model", dict)
    _check_pre_tokenizer(path, source)
    tokens, types = _vocabulary(path, _member(path, model, "vocab", dict), _member(path, source, "added_tokens", list))
    return {
        MODEL_KEY: "gpt2",
        PRE_KEY: PRE_TOKENIZERS[0],
        TOKENS_KEY: tokens,
        TYPES_KEY: types,
        MERGES_KEY: [_merge(path, merge) for merge in _member(path, model, "merges", list)],
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        source = json.loads(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}; give DeepSeek V4's tokenizer.json") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: expected JSON, found {error}; give DeepSeek V4's tokenizer.json") from error
    if isinstance(source, dict):
        return source
    raise _unexpected(path, "a JSON object", source)


def _member(path: Path, parent: Mapping[str, Any], name: str, kind: type) -> Any:
    member = parent.get(name)
    if isinstance(member, kind):
        return member
    raise _unexpected(path, f"{name!r} to be a {kind.__name__}", member)


def _check_pre_tokenizer(path: Path, source: Mapping[str, Any]) -> None:
    steps = _member(path, _member(path, source, "pre_tokenizer", dict), "pretokenizers", list)
    patterns = [step["pattern"] for step in steps if isinstance(step, dict) and "pattern" in step]
    if patterns != [{"Regex": pattern} for pattern in SPLIT_PATTERNS]:
        raise _unexpected(path, "DeepSeek's pre-tokenizer", patterns)


def _vocabulary(path: Path, vocab: Mapping[str, Any], added: Sequence[Any]) -> tuple[list[str], list[int]]:
    """A name and a type for every id; those that nobody names are unused."""
    named = {_id(path, token_id): (token, _NORMAL) for token, token_id in vocab.items()}
    for token in added:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise _unexpected(path, "added tokens with an id and a content", token)
        kind = _CONTROL if token.get("special") is True else _USER_DEFINED
        named[_id(path, token.get("id"))] = (token["content"], kind)
    both = [named.get(token_id, (f"[PAD{token_id}]", _UNUSED)) for token_id in range(max(named, default=-1) + 1)]
    return [token for token, _ in both], [kind for _, kind in both]


def _id(path: Path, token_id: object) -> int:
    if isinstance(token_id, int) and not isinstance(token_id, bool) and 0 <= token_id < _MOST_TOKENS:
        return token_id
    raise _unexpected(path, f"ids from 0 to {_MOST_TOKENS - 1}", token_id)


def _merge(path: Path, merge: object) -> str:
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
        return f"{merge[0]} {merge[1]}"
    raise _unexpected(path, "merges of two tokens", merge)


def _unexpected(path: Path, expected: str, found: object) -> FileFormatError:
    return FileFormatError(f"{path}: expected {expected}, found {found!r:.80}; give DeepSeek V4's tokenizer.json")
