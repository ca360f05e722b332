"""Files of importance matrices: the original's legacy .dat (model.md 8.5) and llama.cpp's GGUF.

Promises: what is written reads back bit-equal, a file appears whole or not at all, and everything that is no importance
matrix is refused with a message: nothing is read past the end, no number may be NaN, infinite or negative.
"""

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.gguf.header import MAGIC
from whitedwarf.gguf.imatrix_dat import dat_pieces, read_dat
from whitedwarf.gguf.imatrix_gguf import read_gguf_imatrix, write_gguf_imatrix
from whitedwarf.gguf.importance import Imatrix, ImatrixEntry

__all__ = ["Imatrix", "ImatrixEntry", "ImatrixFormat", "read_imatrix", "write_imatrix"]

ImatrixFormat: TypeAlias = Literal["dat", "gguf"]


def read_imatrix(path: Path) -> Imatrix:
    """A file of either format, told apart by its first bytes. The file stays mapped.

    Raises UsageError without a file, FileFormatError for one that is no importance matrix.
    """
    return read_gguf_imatrix(path) if _first_bytes(path) == MAGIC else read_dat(path)


def write_imatrix(path: Path, imatrix: Imatrix, format: ImatrixFormat) -> None:
    """Whole or not at all. The .dat holds means only; an expert that saw nothing is all ones there.

    Raises UsageError for an impossible path, WhitedwarfError when the disk does not take it.
    """
    if format == "gguf":
        write_gguf_imatrix(path, imatrix)
    else:
        _write(path, dat_pieces(imatrix))


def _first_bytes(path: Path) -> bytes:
    try:
        if not path.exists():
            raise UsageError(f"{path}: no such file; expected an importance matrix. Check the path.")
        if not path.is_file():  # a pipe would block for ever
            raise FileFormatError(f"{path}: not a regular file; expected an importance matrix.")
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror}); expected an importance matrix.") from error


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise WhitedwarfError(f"cannot write {path}: {error.strerror}; what was there before is unchanged") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
