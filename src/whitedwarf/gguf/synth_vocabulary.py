"""A byte-level vocabulary for synthetic models: any text can be encoded, and the control tokens of the recipe exist.

Promises valid GGUF tokenizer metadata (GPT-2 byte alphabet, merges whose products are tokens) of the exact size asked.
"""

import numpy as np

from whitedwarf.errors import UsageError
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.types import ValueType

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types

_FIRST = (("<｜begin▁of▁sentence｜>", CONTROL), ("<｜end▁of▁sentence｜>", CONTROL), ("<｜▁pad▁｜>", CONTROL))
_LAST = (
    ("<｜System｜>", CONTROL),
    ("<｜User｜>", USER_DEFINED),
    ("<｜Assistant｜>", USER_DEFINED),
    ("<think>", USER_DEFINED),
    ("</think>", USER_DEFINED),
    ("｜DSML｜", USER_DEFINED),
    ("<｜latest_reminder｜>", USER_DEFINED),
)
_MERGES = (
    "t h", "th e", "h e", "i n", "a n", "an d", "e r", "r e", "o n", "o r", "e n", "a t", "o u", "i s", "e s", "s t",
    "Ġ t", "Ġ a", "Ġ s", "Ġ w", "Ġ the", "Ġ in", "Ġ and", "Ġ o", "Ġo f", "Ġt o", "in g", "o o", "l l", "Ġ is",
)  # fmt: skip


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each byte 0 to 255."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    stand_ins = {byte: chr(256 + number) for number, byte in enumerate(others)}
    return [stand_ins.get(byte, chr(byte)) for byte in range(256)]


def tokenizer_metadata(vocab_size: int) -> TypedMetadata:
    """All tokenizer keys; unused ids are filled with ordinary tokens that no merge produces."""
    tokens, types = _tokens(vocab_size)
    return {
        "tokenizer.ggml.model": (ValueType.STRING, "gpt2"),
        "tokenizer.ggml.pre": (ValueType.STRING, "joyai-llm"),
        "tokenizer.ggml.tokens": (ValueType.ARRAY, tokens),
        "tokenizer.ggml.token_type": (ValueType.ARRAY, np.array(types, np.int32)),
        "tokenizer.ggml.merges": (ValueType.ARRAY, list(_MERGES)),
        "tokenizer.ggml.bos_token_id": (ValueType.UINT32, 0),
        "tokenizer.ggml.eos_token_id": (ValueType.UINT32, 1),
        "tokenizer.ggml.padding_token_id": (ValueType.UINT32, 2),
        "tokenizer.ggml.add_bos_token": (ValueType.BOOL, False),
        "tokenizer.ggml.add_eos_token": (ValueType.BOOL, False),
    }


def _tokens(vocab_size: int) -> tuple[list[str], list[int]]:
    words = [*byte_alphabet(), *(merge.replace(" ", "") for merge in _MERGES)]
    num_fillers = vocab_size - len(_FIRST) - len(words) - len(_LAST)
    if num_fillers < 0:
        raise UsageError(f"vocabulary of {vocab_size}: expected at least {vocab_size - num_fillers} tokens")
    words += [f"filler{number}" for number in range(num_fillers)]
    entries = [*_FIRST, *((word, NORMAL) for word in words), *_LAST]
    return [token for token, _ in entries], [kind for _, kind in entries]
