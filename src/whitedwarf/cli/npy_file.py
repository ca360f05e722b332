"""A .npy file written row by row, for matrices larger than memory; it appears complete or not at all."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from whitedwarf.cli.output_file import check_output
from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.base import Logits


class NpyRows:
    """`with` it; leaving by an exception takes the unfinished file away."""

    def __init__(self, path: Path, num_rows: int, num_columns: int) -> None:
        self._path = path
        self._partial = path.parent / f".{path.name}.{os.getpid()}.partial"
        self._rows_left = num_rows
        self._shape = (num_rows, num_columns)

    def __enter__(self) -> Self:
        check_output(self._path)
        try:
            self._file = self._partial.open("wb")
        except OSError as error:
            raise WhitedwarfError(f"cannot write {self._path}: {error.strerror}") from error
        header = {"descr": "<f4", "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self

    def write(self, rows: Logits) -> None:
        """The next rows, (any, columns) float32."""
        assert rows.shape[1] == self._shape[1]
        self._rows_left -= len(rows)
        try:
            self._file.write(np.ascontiguousarray(rows, "<f4").data)
        except OSError as error:
            raise WhitedwarfError(f"cannot write {self._path}: {error.strerror}") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._file.close()
            self._partial.unlink(missing_ok=True)
            return
        assert self._rows_left == 0
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        except OSError as failure:
            self._partial.unlink(missing_ok=True)
            raise WhitedwarfError(f"cannot write {self._path}: {failure.strerror}") from failure
