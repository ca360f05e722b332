"""The built-in questions: TOML files beside this one, each a list of [[case]], read strictly.

All are of this project; none is taken from a published set. `derivation` says how an answer is known and is never shown
to a model. Promises: what is wrong in a file is told with the file, the case and the member.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.case import Case, Kind

KINDS: Mapping[str, Kind] = {"science": "choice", "general": "choice", "maths": "integer", "security": "lines"}
ROUNDS = 25  # of one science, one general and one maths question each
NUM_SECURITY = 17
FIRST_SECURITY = 76
_MEMBERS = frozenset({"id", "domain", "title", "question", "choices", "answer", "derivation"})
_OPTIONAL = frozenset({"choices"})


def built_in_cases() -> tuple[Case, ...]:
    """All 92: rounds of science, general and maths, then security. FileFormatError for a damaged file."""
    science, general, maths, security = (_named(name) for name in KINDS)
    for name, cases, count in (
        ("science", science, ROUNDS),
        ("general", general, ROUNDS),
        ("maths", maths, ROUNDS),
        ("security", security, NUM_SECURITY),
    ):
        if len(cases) != count:
            raise FileFormatError(f"{name}.toml: expected {count} cases, got {len(cases)}; reinstall whitedwarf")
    for number, case in enumerate(security, FIRST_SECURITY):
        if case.id != f"security-{number:03}":
            raise FileFormatError(f"security.toml: expected the id security-{number:03} here, got {case.id!r}")
    rounds = [case for three in zip(science, general, maths, strict=True) for case in three]
    return (*rounds, *security)


def read_questions(data: str, source: str, kind: Kind) -> tuple[Case, ...]:
    """The cases of one file's text, in its order; FileFormatError names what is wrong where."""
    where = f"{source}.toml"
    try:
        document = tomllib.loads(data)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{where}: expected TOML; {error}") from error
    tables = document.pop("case", [])
    if document:
        raise FileFormatError(f"{where}: unknown member {next(iter(document))!r}; expected only [[case]]")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FileFormatError(f"{where}: expected cases written as [[case]]")
    cases = tuple(_case(table, f"{where}, case {number}", source, kind) for number, table in enumerate(tables, 1))
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise FileFormatError(f"{where}: two cases have the id {case.id!r}")
        seen.add(case.id)
    return cases


def _named(name: str) -> tuple[Case, ...]:
    return read_questions(_text(files(__name__) / f"{name}.toml"), name, KINDS[name])


def _text(file: Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"the built-in questions {file.name} cannot be read: {error}") from error


def _case(table: Mapping[str, Any], where: str, source: str, kind: Kind) -> Case:
    if isinstance(table.get("id"), str):
        where = f"{where} ({table['id']})"
    if unknown := sorted(table.keys() - _MEMBERS):
        raise FileFormatError(f"{where}: unknown member {unknown[0]!r}; expected some of {sorted(_MEMBERS)}")
    if missing := sorted(_MEMBERS - _OPTIONAL - table.keys()):
        raise FileFormatError(f"{where}: {missing[0]!r} is missing")
    for name in sorted(_MEMBERS - _OPTIONAL):
        if not isinstance(table[name], str) or not table[name].strip():
            raise FileFormatError(f"{where}: {name} must be a text that is not empty, got {table[name]!r}")
    choices = table.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise FileFormatError(f"{where}: choices must be a list of texts, got {choices!r}")
    if len(set(choices)) < len(choices):
        raise FileFormatError(f"{where}: two choices are the same")
    try:
        return Case(
            source=source,
            id=table["id"],
            domain=table["domain"],
            title=table["title"],
            question=table["question"].strip("\n"),
            choices=tuple(choices),
            answer=table["answer"],
            kind=kind,
        )
    except FileFormatError as error:
        raise FileFormatError(f"{where}: {error}") from error
