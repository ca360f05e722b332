"""Writing GGUF files as a stream: first the plan, then the data in plan order, in pieces of any size.

Promises: memory is what the caller hands in; exactly the planned bytes are written or nothing is; the target appears
complete or not at all, and an existing target stays until the new one is on the disk. After an exception no temporary
file is left.
Does not know what the tensors mean; with several shards each one is atomic, and the first appears last.
"""

import contextlib
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

import numpy as np

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.gguf.copying import DISK_FULL, copy_piece, write_all
from whitedwarf.gguf.file_lock import sync_folder
from whitedwarf.gguf.header import align
from whitedwarf.gguf.layout import Layout, PlannedTensor, plan_layouts
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.types import GgmlType

Chunk: TypeAlias = bytes | bytearray | memoryview | np.ndarray


class GgufWriter:
    """Streams one model into a file or into shards; a context manager that closes, or abandons on an exception.

    `sources` are the files being read: writing over one of them is refused. Raises UsageError for an impossible target,
    WhitedwarfError when the disk is full or fails, ValueError when the caller breaks its own plan.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        metadata: TypedMetadata,
        tensor_plan: Iterable[tuple[str, GgmlType, Sequence[int]]],
        *,
        num_shards: int = 1,
        tensors_per_shard: Sequence[int] | None = None,
        sources: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self._layouts = plan_layouts(Path(path), metadata, tensor_plan, num_shards, tensors_per_shard)
        self.paths = tuple(layout.path for layout in self._layouts)
        self.size_bytes = sum(layout.size_bytes for layout in self._layouts)
        _check_targets(self.paths, [Path(source) for source in sources], self.size_bytes)
        self._partials: list[Path] = []
        self._file: io.FileIO | None = None
        self._pending = self._places()
        self._layout: Layout | None = None
        self._tensor: PlannedTensor | None = None
        self._missing_bytes = 0
        self._state: Literal["open", "closed", "abandoned"] = "open"
        with self._abandoning():
            self._advance()

    def write(self, name: str, chunk: Chunk) -> None:
        """The next bytes of the tensor `name`, which must be the next unfinished one of the plan."""
        with self._abandoning():
            self._expect(name)
            data = _bytes_of(chunk)
            if len(data) > self._missing_bytes:
                raise ValueError(
                    f"{self.paths[0]}: tensor {name!r} got {len(data) - self._missing_bytes} bytes too many"
                )
            self._put(data)
            self._count(len(data))

    def copy(self, name: str, source: io.FileIO, offset_bytes: int) -> int:
        """The next bytes of the tensor `name` out of another file: how many, at least one and at most a piece.

        Raises FileFormatError when `source` cannot give them.
        """
        with self._abandoning():
            self._expect(name)
            num_bytes = copy_piece(source, self._open_file(), offset_bytes, self._missing_bytes)
            self._count(num_bytes)
        return num_bytes

    def close(self) -> None:
        """Put the finished files in their places. Raises ValueError when planned bytes are missing."""
        if self._state == "closed":
            return
        if self._state == "abandoned":
            raise ValueError(f"{self.paths[0]} was abandoned after an error")
        with self._abandoning():
            if self._tensor is not None:
                raise ValueError(f"{self.paths[0]}: tensor {self._tensor.name!r} lacks {self._missing_bytes} bytes")
            self._finish_file()
            for partial, path in reversed(list(zip(self._partials, self.paths, strict=True))):
                partial.replace(path)
            sync_folder(self.paths[0].parent)
            self._state = "closed"

    def abandon(self) -> None:
        """Remove what was written; the targets stay as they were."""
        if self._state != "open":
            return
        self._state = "abandoned"
        self._tensor = None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        for partial in self._partials:
            partial.unlink(missing_ok=True)

    def __enter__(self) -> "GgufWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _expect(self, name: str) -> None:
        if self._tensor is None or self._tensor.name != name:
            expected = f"tensor {self._tensor.name!r}" if self._tensor else "no more tensors"
            raise ValueError(f"{self.paths[0]}: data of tensor {name!r} came; the plan expects {expected}")

    def _count(self, num_bytes: int) -> None:
        """So much of the current tensor is there; a complete one makes way for the next."""
        self._missing_bytes -= num_bytes
        if not self._missing_bytes:
            self._pad()
            self._advance()

    def _places(self) -> Iterator[tuple[Layout, PlannedTensor | None]]:
        """Every tensor with its file; a file without tensors still comes once, for its header."""
        for layout in self._layouts:
            for tensor in layout.tensors or (None,):
                yield layout, tensor

    def _advance(self) -> None:
        """Go to the next planned tensor, opening its file where that is a new one, and those without tensors before."""
        for layout, tensor in self._pending:
            if layout is not self._layout:
                self._finish_file()
                self._start_file(layout)
            if tensor is not None:
                self._tensor, self._missing_bytes = tensor, tensor.size_bytes
                return
        self._tensor, self._missing_bytes = None, 0

    def _start_file(self, layout: Layout) -> None:
        partial = layout.path.with_name(f".{layout.path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
        self._file = io.FileIO(partial, "x")
        self._partials.append(partial)
        self._layout = layout
        self._put(memoryview(layout.header))

    def _finish_file(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _pad(self) -> None:
        if self._tensor is not None and self._layout is not None:
            size_bytes = self._tensor.size_bytes
            self._put(memoryview(bytes(align(size_bytes, self._layout.alignment) - size_bytes)))

    def _put(self, data: memoryview) -> None:
        write_all(self._open_file(), data)

    def _open_file(self) -> io.FileIO:
        if self._file is None:
            raise ValueError(f"{self.paths[0]} is closed")
        return self._file

    @contextlib.contextmanager
    def _abandoning(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abandon()
            raise _write_failure(self.paths[0], self.size_bytes, error) from error
        except BaseException:
            self.abandon()
            raise


def _bytes_of(chunk: Chunk) -> memoryview:
    if isinstance(chunk, np.ndarray):  # also of types that a memoryview does not know, like bfloat16
        return np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
    return memoryview(chunk).cast("B")


def _check_targets(paths: Sequence[Path], sources: Sequence[Path], size_bytes: int) -> None:
    folder = paths[0].parent
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; expected one to write {paths[0].name} into. Make it first.")
    for path in paths:
        if path.exists() and not path.is_file():
            raise UsageError(
                f"{path}: not a regular file; expected a file to write or to replace. Choose another name."
            )
        for source in sources:
            if path.exists() and source.exists() and path.samefile(source):
                raise UsageError(f"{path}: is the file being read ({source}). Choose another name for the output.")
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes:
        raise WhitedwarfError(_disk_full_text(paths[0], size_bytes, free_bytes))


def _disk_full_text(path: Path, size_bytes: int, free_bytes: int) -> str:
    return (
        f"{path}: the disk is full: {size_bytes:,} bytes are needed and {free_bytes:,} are free in {path.parent}. "
        "Nothing was left there; free some space or write to another disk."
    )


def _write_failure(path: Path, size_bytes: int, error: OSError) -> WhitedwarfError:
    if error.errno in DISK_FULL:
        return WhitedwarfError(_disk_full_text(path, size_bytes, shutil.disk_usage(path.parent).free))
    text = (
        f"{path}: cannot be written ({error.strerror or error}); nothing was left there. Check the folder and the disk."
    )
    return WhitedwarfError(text)
