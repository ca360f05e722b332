"""The models on this machine: where they are looked for, and what each one is.

Promises: a file that is broken or of another kind is listed with what is wrong with it and ends nothing; a model in
shards, or found in two ways, is listed once. Reads no tensor data and changes nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.hparams import ARCHITECTURE
from whitedwarf.gguf.inspect import Summary, summary
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.split import parse_shard_name
from whitedwarf.weights.part_file import PART_SUFFIX
from whitedwarf.weights.store import bundled_model

FOLDER_VARIABLE = "DS4_GGUF_DIR"
FOLDER_NAME = "gguf"
_KNOWN_SHAPES = {(43, 4096, 256): "Flash", (61, 7168, 384): "PRO"}
_LAYER = re.compile(r"blk\.(\d+)\.(?!nextn\.)")
_LEAST_SHARE = 0.1  # of the bytes, for a type to be named


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model on disk. `problem` says why it will not run; then the rest may be empty."""

    name: str
    path: str
    num_files: int
    size_bytes: int
    shape: str = ""
    quantisation: str = ""
    is_default: bool = False
    problem: str | None = None


def model_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where `pull` puts models: DS4_GGUF_DIR, else ./gguf."""
    return Path(environment.get(FOLDER_VARIABLE) or FOLDER_NAME).expanduser()


def list_models(folders: Iterable[Path], default: Path | None) -> list[ModelEntry]:
    """What lies in `folders` and beside `default`, and the bundled model, without repetitions and links last.

    Of the package's own files only the model is told, not the draft block beside it.
    """
    bundled = bundled_model()
    named = [bundled] if default is None else [bundled, default]
    places = dict.fromkeys([*folders, *(path.resolve().parent for path in named)])
    own = bundled.resolve().parent
    paths = [path for place in places if place.resolve() != own for path in _files(place)] + named
    seen: set[Path] = set()
    entries = []
    for path in sorted(paths, key=Path.is_symlink):  # a file under its own name, rather than by a link to it
        if path.resolve() not in seen:
            entry, files = _entry(path.absolute(), default)
            seen.update(file.resolve() for file in files)
            entries.append(entry)
    return entries


def _files(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:  # no such folder, or none of ours
        return
    yield from (path for path in paths if path.name.endswith((".gguf", PART_SUFFIX)) and path.is_file())


def _entry(path: Path, default: Path | None) -> tuple[ModelEntry, Sequence[Path]]:
    size = path.stat().st_size
    if path.name.endswith(PART_SUFFIX):
        return ModelEntry(path.name, str(path), 1, size, problem="not finished; `whitedwarf pull` goes on"), [path]
    try:
        with open_gguf(path) as gguf:
            return _described(gguf, default), gguf.paths
    except WhitedwarfError as error:
        return ModelEntry(path.name, str(path), 1, size, is_default=_is_same(path, default), problem=str(error)), [path]


def _described(gguf: GgufFile, default: Path | None) -> ModelEntry:
    about = summary(gguf)
    first = gguf.paths[0]
    shard = parse_shard_name(first.name)
    return ModelEntry(
        name=first.name if shard is None else shard.prefix,
        path=str(first),
        num_files=len(gguf.paths),
        size_bytes=about.file_bytes,
        shape=_shape(about, gguf.tensors),
        quantisation=_quantisation(about),
        is_default=any(_is_same(path, default) for path in gguf.paths),
        problem=_problem(about, gguf.tensors),
    )


def _is_same(path: Path, default: Path | None) -> bool:
    return default is not None and path.resolve() == default.resolve()


def _shape(about: Summary, tensors: Iterable[str]) -> str:
    sizes = {key: value for group in ("layers", "experts") for key, value in about.groups.get(group, {}).items()}
    layers, experts = sizes.get("layers"), sizes.get("experts")
    width = about.groups.get("layers", {}).get("width")
    parts = [
        _KNOWN_SHAPES.get((layers, width, experts), ""),  # type: ignore[arg-type]
        _layers_text(layers, tensors),
        f"width {width}" if width else "",
        f"{experts} experts" if experts else "",
    ]
    return ", ".join(part for part in parts if part)


def _layers_text(layers: object, tensors: Iterable[str]) -> str:
    held = {int(match[1]) for name in tensors if (match := _LAYER.match(name))}
    if not isinstance(layers, int) or not held:
        return ""
    is_part = min(held) > 0 or max(held) < layers - 1
    return f"layers {min(held)} to {max(held)} of {layers}" if is_part else f"{layers} layers"


def _quantisation(about: Summary) -> str:
    least = _LEAST_SHARE * about.tensor_bytes
    return " + ".join(total.type for total in about.types if total.size_bytes >= least)


def _problem(about: Summary, tensors: Iterable[str]) -> str | None:
    if about.architecture != ARCHITECTURE:
        return f"another architecture ({about.architecture}); DeepSeek V4 is {ARCHITECTURE}"
    names = set(tensors)
    if not any(_LAYER.match(name) for name in names):
        return "a draft block, no model by itself"
    if "token_embd.weight" not in names or "output.weight" not in names:
        return "a part of a model, for a cluster"
    return None
