"""A collected set on disk: a manifest, and for each case a prompt, a continuation and the raw response.

The manifest is tab-separated: id, prompt path, continuation path, response path (spec/product.md E.4). Lines that begin
with # say nothing. Paths are relative to its folder, or to the current one where that is how they lead to a file.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.text_file import read_text

MANIFEST = "manifest.tsv"
HEADER = ("id", "prompt", "continuation", "response")
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt and what the official model went on with."""

    id: str
    prompt: Path
    continuation: Path
    response: Path


def check_id(text: str, where: str) -> str:
    """An id that may become a file's name."""
    if not _ID.fullmatch(text):
        raise FileFormatError(
            f"{where}: {text[:60]!r} is no id: expected at most 100 of the letters A-Z and a-z, digits, _ . and -"
        )
    return text


def check_different(ids: Iterable[str], where: str) -> None:
    """Ids that differ by case only would be one file on some disks."""
    seen: dict[str, str] = {}
    for case_id in ids:
        if (earlier := seen.get(case_id.lower())) is not None:
            same = "is there twice" if earlier == case_id else f"and {earlier!r} differ by case only"
            raise FileFormatError(f"{where}: the id {case_id!r} {same}; give each case an id of its own")
        seen[case_id.lower()] = case_id


def manifest_file(path: Path) -> Path:
    """The manifest of a folder, or the one that is named."""
    return path / MANIFEST if path.is_dir() else path


def read_manifest(path: Path) -> list[Case]:
    """At least one case; FileFormatError names the line."""
    file = manifest_file(path)
    rows = [
        (number, line.split("\t"))
        for number, line in enumerate(read_text(file).splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if rows and rows[0][1][0] == HEADER[0]:
        del rows[0]
    cases = [_case(fields, file, number) for number, fields in rows]
    if not cases:
        raise FileFormatError(f"{file}: expected at least one case (id, prompt, continuation, response), found none")
    check_different((case.id for case in cases), str(file))
    return cases


def manifest_text(cases: Sequence[Case], folder: Path) -> str:
    """What `read_manifest` reads; paths as seen from `folder`."""
    rows = [HEADER] + [
        (case.id, *(path.relative_to(folder).as_posix() for path in (case.prompt, case.continuation, case.response)))
        for case in cases
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def found_from(folder: Path, name: str) -> Path:
    """A file that another file names: seen from that one's folder or one above it, else from the current folder."""
    for start in (folder, *folder.resolve().parents):
        if (start / name).is_file():
            return start / name
    return Path(name) if Path(name).is_file() else folder / name


def _case(fields: list[str], file: Path, number: int) -> Case:
    where = f"{file}, line {number}"
    if len(fields) not in (3, 4) or not all(fields[:3]):
        raise FileFormatError(f"{where}: expected id, prompt, continuation and response with tabs between")
    prompt, continuation, response = (found_from(file.parent, name) for name in (*fields[1:], "")[:3])
    return Case(check_id(fields[0], where), prompt, continuation, response)
