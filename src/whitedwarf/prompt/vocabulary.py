"""The token list of a GGUF file: which token is text, which is control, and the bytes that each stands for.

Promises: every complaint names the metadata key. A token is *text* when byte-level BPE can produce it and the file does
not call it anything else; all others (control, user-defined, unused, padding) are out of reach of plain text.
Does not know the tokenizers library.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.special import SpecialToken

TOKENS_KEY = "tokenizer.ggml.tokens"
MERGES_KEY = "tokenizer.ggml.merges"
TYPES_KEY = "tokenizer.ggml.token_type"
MODEL_KEY = "tokenizer.ggml.model"
PRE_KEY = "tokenizer.ggml.pre"

# "deepseek-v3" is llama.cpp's name for the very same three expressions; early community files of V4 carry it.
PRE_TOKENIZERS = ("joyai-llm", "deepseek-v3")
TEXT_TYPES = frozenset({1, 6})  # llama.cpp's NORMAL and BYTE; 3 control, 4 user-defined, 5 unused, 2 unknown
FULL_WIDTH_BAR = "｜"


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes: printable Latin-1 for itself, the rest moved up from U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_SPLIT_AT_SPACE = methodcaller("split", " ")
BYTE_OF = _byte_alphabet()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens in id order, the merges in priority order, and the ids that plain text can produce."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    text_ids: Mapping[str, int]  # what BPE may produce
    special_ids: Mapping[str, int]  # everything else, by spelling

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> "Vocabulary":
        """Read the five tokenizer keys; raises FileFormatError naming the key that is missing or wrong."""
        _check_names(metadata)
        tokens = _strings(metadata, TOKENS_KEY)
        lines = _strings(metadata, MERGES_KEY)
        reachable = BYTE_OF.keys() | {line.replace(" ", "") for line in lines}
        is_listed = _listed_as_text(metadata, tokens)
        _check_each_once(tokens)
        text_ids = dict(zip(tokens, range(len(tokens)), strict=True))
        special_ids = {token: i for token, i in text_ids.items() if not (is_listed[i] and token in reachable)}
        for token in special_ids:
            del text_ids[token]
        _check_bytes(text_ids)
        return cls(tuple(tokens), _merges(lines), text_ids, special_ids)

    def special_id(self, token: SpecialToken) -> int:
        """The id of a control token; raises FileFormatError when the file has none."""
        found = self.special_ids.get(token)
        if found is None:
            raise FileFormatError(
                f"{TOKENS_KEY} has no control token {token.value!r} ({token.name}), which this prompt needs: "
                "use a file converted from a DeepSeek V4 tokenizer"
            )
        return found

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes a token stands for; tokens with a full-width bar are literal, the others are byte-level text."""
        if not 0 <= token_id < len(self.tokens):
            raise ValueError(f"token id {token_id} is outside the vocabulary of {len(self.tokens)} tokens")
        token = self.tokens[token_id]
        if FULL_WIDTH_BAR not in token:
            try:
                return bytes(map(BYTE_OF.__getitem__, token))
            except KeyError:  # not byte-level spelling: a literal added token
                pass
        return token.encode("utf-8", "replace")

    def first_bad_merge(self) -> tuple[int, str] | None:
        """Rank of the first merge with a part or a result that is no text token, and that token."""
        for rank, (left, right) in enumerate(self.merges):
            for token in (left, right, left + right):
                if token not in self.text_ids:
                    return rank, token
        return None


def _check_names(metadata: Mapping[str, object]) -> None:
    # Absent names pass: the architecture is checked elsewhere, and DeepSeek V4 has only one tokenizer.
    model = metadata.get(MODEL_KEY, "gpt2")
    if not isinstance(model, str) or model != "gpt2":
        raise FileFormatError(f"{MODEL_KEY} is {model!r}; expected 'gpt2' (byte-level BPE)")
    pre = metadata.get(PRE_KEY, PRE_TOKENIZERS[0])
    if not isinstance(pre, str) or pre not in PRE_TOKENIZERS:
        raise FileFormatError(f"{PRE_KEY} is {pre!r}; expected {' or '.join(map(repr, PRE_TOKENIZERS))}")


def _strings(metadata: Mapping[str, object], key: str) -> list[str]:
    value = metadata.get(key)
    if value is None:
        raise FileFormatError(f"{key} is missing: the file has no tokenizer; expected an array of strings")
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise FileFormatError(f"{key} is a {type(value).__name__}; expected an array of strings")
    if not value and key == TOKENS_KEY:
        raise FileFormatError(f"{key} is empty; expected the vocabulary")
    return list(value)


def _merges(lines: list[str]) -> tuple[tuple[str, str], ...]:
    for rank, line in enumerate(lines):
        if line.count(" ") != 1:
            raise FileFormatError(f"{MERGES_KEY}[{rank}] is {line!r}; expected two tokens, one space between")
    return tuple([(left, right) for left, right in map(_SPLIT_AT_SPACE, lines)])


def _listed_as_text(metadata: Mapping[str, object], tokens: list[str]) -> list[bool]:
    types = metadata.get(TYPES_KEY)
    if types is None:
        return [True] * len(tokens)
    if isinstance(types, np.ndarray):
        types = types.tolist()
    if not isinstance(types, Iterable) or not all(isinstance(item, int) for item in types):
        raise FileFormatError(f"{TYPES_KEY} is a {type(types).__name__}; expected an array of integers")
    listed = [token_type in TEXT_TYPES for token_type in types]
    if len(listed) != len(tokens):
        raise FileFormatError(f"{TYPES_KEY} has {len(listed)} entries; expected {len(tokens)}, one for each token")
    return listed


def _check_each_once(tokens: list[str]) -> None:
    if len(set(tokens)) == len(tokens):
        return
    seen: set[str] = set()
    for token_id, token in enumerate(tokens):
        if token in seen:
            raise FileFormatError(f"{TOKENS_KEY}[{token_id}] repeats {token!r}; expected every token once")
        seen.add(token)


def _check_bytes(text_ids: Mapping[str, int]) -> None:
    # A vocabulary without one of them would silently drop that byte from every prompt.
    for character, byte in BYTE_OF.items():
        if character not in text_ids:
            raise FileFormatError(f"{TOKENS_KEY} has no token for byte 0x{byte:02x} ({character!r}); expected all 256")
