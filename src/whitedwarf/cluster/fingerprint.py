"""What two files must have in common to be parts of one model: hyper-parameters and vocabulary.

Not the file: the halves of a large model may be two files, and quantised differently.
"""

import hashlib
import json
from dataclasses import asdict
from enum import Enum

from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.reader import GgufFile

_TOKENS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")
_DIGITS = 16


def fingerprint_of(gguf: GgufFile) -> str:
    """Sixteen hexadecimal digits; the same for every quantisation and every part of a model."""
    found = hashlib.sha256(_text(from_metadata(gguf.metadata, gguf.tensors)))
    for key in _TOKENS:
        found.update(f"\n{key}\n".encode())
        words = gguf.metadata.get(key)
        for word in words if isinstance(words, list | tuple) else ():
            data = str(word).encode(errors="surrogatepass")
            found.update(len(data).to_bytes(4, "little") + data)
    return found.hexdigest()[:_DIGITS]


def _text(hp: Hyperparameters) -> bytes:
    return json.dumps(asdict(hp), sort_keys=True, default=_plain).encode()


def _plain(value: object) -> object:
    return value.name if isinstance(value, Enum) else repr(value)
