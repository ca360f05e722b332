"""New GGUF files out of the tensors of open ones: what splitting, merging and splicing have in common.

Promises what GgufWriter promises, bounded memory whatever the files, and that every tensor's bytes arrive unchanged.
Does not know why these tensors were chosen.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.layout import SPLIT_KEYS, Layout, PlannedTensor, plan_layouts
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import GgufFile, TensorInfo
from whitedwarf.gguf.split import parse_shard_name
from whitedwarf.gguf.writer import GgufWriter

Progress = Callable[[int, int], None]  # bytes done, bytes in all


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor of the new file: its name there, and where its bytes are now."""

    name: str
    model: GgufFile
    name_there: str

    @property
    def info(self) -> TensorInfo:
        return self.model.tensors[self.name_there]

    @property
    def path(self) -> Path:
        return self.model.paths[self.info.shard]

    @property
    def planned(self) -> PlannedTensor:
        return PlannedTensor(self.name, self.info.type, self.info.shape)


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is to be written; planning touches no file."""

    target: Path
    metadata: TypedMetadata
    pieces: tuple[Piece, ...]
    layouts: tuple[Layout, ...]

    @property
    def size_bytes(self) -> int:
        return sum(layout.size_bytes for layout in self.layouts)


def pieces_of(model: GgufFile) -> tuple[Piece, ...]:
    """All tensors of one model as they are."""
    return tuple(Piece(name, model, name) for name in model.tensors)


def own_metadata(model: GgufFile) -> TypedMetadata:
    """All keys but those that tell how the model was split."""
    return {key: typed for key, typed in model.typed_metadata().items() if key not in SPLIT_KEYS}


def plan_rewriting(
    target: Path, metadata: TypedMetadata, pieces: Sequence[Piece], tensors_per_shard: Sequence[int] | None = None
) -> Rewriting:
    """Raises FileFormatError for a file that reads but cannot be written, UsageError for a cut that cannot be."""
    counts = [len(pieces)] if tensors_per_shard is None else tensors_per_shard
    try:
        layouts = plan_layouts(target, metadata, [piece.planned for piece in pieces], tensors_per_shard=counts)
    except ValueError as error:
        source = pieces[0].model.paths[0] if pieces else target
        raise FileFormatError(f"{source}: cannot be written again: {error}") from error
    return Rewriting(target, metadata, tuple(pieces), tuple(layouts))


def check_targets(rewriting: Rewriting, replace: bool = False) -> None:
    """UsageError where something is in the way already, unless it may be replaced; what is read never may."""
    sources = _sources(rewriting)
    for layout in rewriting.layouts:
        name = parse_shard_name(layout.path.name)
        if len(rewriting.layouts) == 1 and name is not None and name.count > 1:
            raise UsageError(
                f"{layout.path}: this is the name of one shard of {name.count}, and the output is a complete model. "
                "Choose a name without -00001-of-..."
            )
        if layout.path.exists() and any(layout.path.samefile(source) for source in sources):
            raise UsageError(f"{layout.path}: is a file being read. Choose another name for the output.")
        if layout.path.exists() and not replace:
            raise UsageError(f"{layout.path}: exists already. Choose another name, or replace it with --force.")


def rewrite(rewriting: Rewriting, progress: Progress | None = None) -> tuple[Path, ...]:
    """Write it; the paths of the new files. Raises UsageError for an impossible target, WhitedwarfError for the disk,
    FileFormatError for sources that cannot be read to their end."""
    plan = [piece.planned for piece in rewriting.pieces]
    counts = [len(layout.tensors) for layout in rewriting.layouts]
    sources = _sources(rewriting)
    writer = GgufWriter(rewriting.target, rewriting.metadata, plan, tensors_per_shard=counts, sources=sources)
    with writer:
        _copy(rewriting.pieces, writer, progress)
    return writer.paths


def _copy(pieces: Sequence[Piece], writer: GgufWriter, progress: Progress | None) -> None:
    total_bytes = sum(piece.planned.size_bytes for piece in pieces)
    done_bytes = 0
    for path, group in itertools.groupby(pieces, lambda piece: piece.path):
        with _opened(path) as file:
            for piece in group:
                for count in _copy_tensor(piece, file, writer):
                    done_bytes += count
                    if progress is not None:
                        progress(done_bytes, total_bytes)


def _copy_tensor(piece: Piece, file: FileIO, writer: GgufWriter) -> Iterator[int]:
    offset = piece.info.offset_bytes
    end = offset + piece.info.size_bytes
    while offset < end:
        count = writer.copy(piece.name, file, offset)
        offset += count
        yield count


def _opened(path: Path) -> FileIO:
    try:
        return FileIO(path, "r")
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be opened ({error.strerror}); expected a readable GGUF file.") from error


def _sources(rewriting: Rewriting) -> list[Path]:
    return sorted({path for piece in rewriting.pieces for path in piece.model.paths})
