"""SHA-256 of a model's parts, to be written beside it and compared later.

Every tensor has a digest of its own, and so has what the header says. Promises: a list stays true when the model is
split or merged, and a difference names the tensor; comparing whole files is the business of `sha256sum`.
The digest of a tensor is that of its bytes, nothing added. Writes no file.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.cursor import UINT32, UINT64
from whitedwarf.gguf.header import TensorInfo
from whitedwarf.gguf.metadata import encode_string, encode_value
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.gguf.rewriting import own_metadata
from whitedwarf.gguf.verify import Finding

HEADER = "header"
LARGEST_LIST_BYTES = 64 << 20
_TITLE = "# SHA-256 of a GGUF model's header and tensors, for `whitedwarf gguf verify --check-sha256`"
_LINE = re.compile(r"(?P<digest>[0-9a-fA-F]{64})  (?:(?P<header>header)|tensor (?P<name>.+))")
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
Digests = Mapping[str | None, str]  # name of a tensor, or None for the header -> hexadecimal digits


class DigestWatcher:
    """Watches a walk over a model (`verify`)."""

    def __init__(self) -> None:
        self._hashes: dict[str, hashlib._Hash] = {}
        self._missing_bytes: dict[str, int] = {}

    def look_at(self, info: TensorInfo, piece: np.ndarray) -> None:
        """The next bytes of a tensor."""
        if info.name not in self._hashes:
            self._hashes[info.name] = hashlib.sha256()
            self._missing_bytes[info.name] = info.size_bytes
        self._hashes[info.name].update(piece.data)
        self._missing_bytes[info.name] -= len(piece)

    def digests(self, model: GgufFile) -> Digests:
        """Of the header, and of the tensors that were seen completely."""
        digests: dict[str | None, str] = {None: header_digest(model)}
        digests |= {name: hash_.hexdigest() for name, hash_ in self._hashes.items() if not self._missing_bytes[name]}
        return digests


def header_digest(model: GgufFile) -> str:
    """Of all keys but those of a split, and of every tensor's name, type and shape, in the order of the file."""
    digest = hashlib.sha256()
    for key, (type_, value) in own_metadata(model).items():
        digest.update(encode_string(key) + UINT32.pack(type_) + encode_value(type_, value))
    for info in model.tensors.values():
        shape = b"".join(map(UINT64.pack, info.shape))
        digest.update(encode_string(info.name) + UINT32.pack(info.type) + UINT32.pack(len(info.shape)) + shape)
    return digest.hexdigest()


def list_text(digests: Digests) -> str:
    """The list as a text file."""
    lines = [
        f"{digest}  {HEADER}" if name is None else f"{digest}  tensor {_escaped(name)}"
        for name, digest in digests.items()
    ]
    return "\n".join([_TITLE, *lines, ""])


def read_list(path: Path) -> Digests:
    """Raises UsageError where there is no such file, FileFormatError where it is no such list."""
    digests: dict[str | None, str] = {}
    for number, line in enumerate(_text(path).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise FileFormatError(
                f"{path}, line {number}: found {line!r:.80}; expected 64 hexadecimal digits, two spaces, and 'header' "
                "or 'tensor NAME', as --write-sha256 writes them. (For digests of whole files use sha256sum -c.)"
            )
        name = None if found["header"] else _unescaped(found["name"])
        if name in digests:
            raise FileFormatError(f"{path}, line {number}: {_subject(name)} a second time; expected it once.")
        digests[name] = found["digest"].lower()
    if not digests:
        raise FileFormatError(f"{path}: lists nothing; expected digests as --write-sha256 writes them.")
    return digests


def compare(found: Digests, wanted: Digests) -> Iterator[Finding]:
    """An error for everything that differs or is in one only."""
    for name, digest in wanted.items():
        if name not in found:
            yield Finding("error", _subject(name), "is in the list of digests, but was not found or not read")
        elif found[name] != digest:
            text = f"its SHA-256 is {found[name]}, in the list it is {digest}: it has changed"
            yield Finding("error", _subject(name), text)
    for name in found:
        if name not in wanted:
            yield Finding("error", _subject(name), "is not in the list of digests")


def _subject(name: str | None) -> str:
    return HEADER if name is None else name


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(text: str) -> str:
    return re.sub(r"\\[\\nr]", lambda found: _ESCAPES[found[0]], text)


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise UsageError(f"{path}: no such file; expected a list of digests, as --write-sha256 writes it.")
        if path.stat().st_size > LARGEST_LIST_BYTES:
            raise FileFormatError(f"{path}: too large to be a list of digests.")
        return path.read_bytes().decode()
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); expected a list of digests.") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: is no text; expected a list of digests.") from error
