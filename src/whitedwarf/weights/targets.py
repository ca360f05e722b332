"""What `pull` can be asked for, and which files of a repository that means.

A target is one of the published models' short names (product.md G.1), `org/repo/path`, `org/repo/GLOB`, or `org/repo`
where only one model lies. Promises: a model in shards is always chosen whole, and the names under which files are kept
are plain names, different from each other. Pure: knows neither network nor disk.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from whitedwarf.errors import UsageError
from whitedwarf.gguf.split import ShardName, parse_shard_name

PUBLISHED = "antirez/deepseek-v4-gguf"
_REPO_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_FLASH = "DeepSeek-V4-Flash-"
_PRO = "DeepSeek-V4-Pro-"
_HALF = "one half of a model, for one machine of a cluster; no model by itself"
_DRAFTS = "a draft block, which goes beside a Flash model; no model by itself"


@dataclass(frozen=True, slots=True)
class Target:
    """What was asked for. Without patterns: the one model that the repository holds."""

    repo: str
    patterns: tuple[str, ...] = ()
    becomes_default: bool = False  # ./ds4flash.gguf is made to point to it
    about: str = ""

    def __str__(self) -> str:
        return self.repo if len(self.patterns) != 1 else f"{self.repo}/{self.patterns[0]}"


def _published(*names: str, becomes_default: bool = False, about: str) -> Target:
    return Target(PUBLISHED, names, becomes_default, about)


_PRO_FIRST, _PRO_SECOND = f"{_PRO}Q4K-Layers00-30.gguf", f"{_PRO}Q4K-Layers-31-output.gguf"
TARGETS = {
    "q2-imatrix": _published(
        f"{_FLASH}IQ2XXS-w2Q2K-AProjQ8-SExpQ8-OutQ8-chat-v2-imatrix.gguf",
        becomes_default=True,
        about="Flash, 81 GB, for machines with 96 GB or more",
    ),
    "q2-q4-imatrix": _published(
        f"{_FLASH}Layers37-42Q4KExperts-OtherExpertLayersIQ2XXSGateUp-Q2KDown-AProjQ8-SExpQ8-OutQ8-chat-v2-imatrix-"
        "fixed.gguf",
        becomes_default=True,
        about="Flash with its last layers finer, 98 GB",
    ),
    "q4-imatrix": _published(
        f"{_FLASH}Q4KExperts-F16HC-F16Compressor-F16Indexer-Q8Attn-Q8Shared-Q8Out-chat-v2-imatrix.gguf",
        becomes_default=True,
        about="Flash, 153 GB",
    ),
    "pro-q2-imatrix": _published(
        f"{_PRO}IQ2XXS-w2Q2K-AProjQ8-SExpQ8-OutQ8-Instruct-imatrix.gguf",
        becomes_default=True,
        about="PRO, 430 GB",
    ),
    "pro-q4-layers00-30": _published(_PRO_FIRST, about=f"PRO, 426 GB, {_HALF}"),
    "pro-q4-layers31-output": _published(_PRO_SECOND, about=f"PRO, 412 GB, {_HALF}"),
    "pro-q4-split": _published(_PRO_FIRST, _PRO_SECOND, about="PRO, both halves, 838 GB, for a cluster"),
    "mtp": _published(f"{_FLASH}MTP-Q4K-Q8_0-F32.gguf", about=f"3.5 GB, {_DRAFTS}"),
}


def parse_target(text: str) -> Target:
    """A short name, or org/repo with what follows. UsageError for anything else."""
    if text in TARGETS:
        return TARGETS[text]
    words = text.split("/", 2)
    if len(words) < 2:
        raise UsageError(
            f"unknown target {text!r}; {_close(text)}expected org/repo/file, or one of {', '.join(TARGETS)}"
        )
    if not all(_REPO_PART.fullmatch(word) for word in words[:2]):
        raise UsageError(
            f"target {text!r}: expected org/repo/file, and {'/'.join(words[:2])!r} is no repository's name"
        )
    path = words[2] if len(words) == 3 else ""
    return Target("/".join(words[:2]), (path,) if path else ())


def _close(text: str) -> str:
    close = difflib.get_close_matches(text, TARGETS, 1)
    return f"did you mean {close[0]!r}? " if close else ""


def choose(target: Target, listed: Sequence[str]) -> tuple[str, ...]:
    """Paths of the files that `target` means, out of all in its repository, all shards of each. UsageError if none."""
    if not target.patterns:
        return _only_model(target, listed)
    chosen: dict[str, None] = {}
    for pattern in target.patterns:
        for path in _matching(target, pattern, listed):
            chosen |= dict.fromkeys(_with_siblings(target, path, listed))
    return tuple(chosen)


def local_name(path: str) -> str:
    """The name under which a repository's file is kept. UsageError where that would be no plain name."""
    name = PurePosixPath(path).name
    if not name.isprintable() or "\\" in name or name in ("", ".", ".."):
        raise UsageError(f"the repository's file {path!r} has a name that no file should have here; fetch it by hand")
    return name


def check_different(paths: Sequence[str]) -> None:
    """UsageError where two files of different folders would be kept under one name."""
    seen: dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(local_name(path).lower(), path)  # lower: some disks do not tell cases apart
        if other != path:
            raise UsageError(
                f"{other} and {path} have the same name; fetch them one by one, with --to into two folders"
            )


def _matching(target: Target, pattern: str, listed: Sequence[str]) -> list[str]:
    if pattern in listed:  # before it is taken for a pattern: names may hold [ and ]
        return [pattern]
    found = [path for path in listed if fnmatchcase(path, pattern)]
    if not found and "/" not in pattern:
        found = [path for path in listed if fnmatchcase(PurePosixPath(path).name, pattern)]
    if found:
        return sorted(found)
    close = (
        difflib.get_close_matches(pattern, listed, 3, 0.5) or [path for path in listed if path.endswith(".gguf")][:5]
    )
    shown = f"it has {', '.join(close)}" if close else f"none of its {len(listed)} files is a GGUF"
    raise UsageError(f"{target.repo} has no file {pattern}; {shown}")


def _with_siblings(target: Target, path: str, listed: Sequence[str]) -> list[str]:
    name = parse_shard_name(PurePosixPath(path).name)
    if name is None:
        return [path]
    siblings = [_beside(path, sibling) for sibling in name.siblings()]
    missing = [sibling for sibling in siblings if sibling not in listed]
    if missing:
        raise UsageError(
            f"{target.repo}: {path} is one of {name.count} shards, and {missing[0]} is not there "
            f"({len(missing)} missing); choose another file"
        )
    return siblings


def _beside(path: str, name: ShardName) -> str:
    return str(PurePosixPath(path).with_name(str(name)))


def _only_model(target: Target, listed: Sequence[str]) -> tuple[str, ...]:
    models: dict[tuple[str, ...], None] = {}
    for path in sorted(path for path in listed if path.endswith(".gguf")):
        models[tuple(_with_siblings(target, path, listed))] = None
    if len(models) == 1:
        return next(iter(models))
    if not models:
        raise UsageError(
            f"{target.repo} holds no GGUF file among its {len(listed)}; expected a repository of GGUF models"
        )
    names = ", ".join(model[0] for model in list(models)[:8])
    raise UsageError(f"{target.repo} holds {len(models)} models; say which, as {target.repo}/FILE: {names}")
