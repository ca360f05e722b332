"""Scores that were measured before a run was stopped: a file beside the table, from which the same command goes on.

A line says what is measured (model, settings, cases); then a line of JSON for each score. A part of something else, or
one that is damaged, counts as none. A line that was cut off is left out.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.score.measuring import Forcing, Score

Write = Callable[[Path, str], None]


def cases_digest(cases: Sequence[Forcing]) -> str:
    """Of all ids, prompts and continuations."""
    text = json.dumps([[case.id, case.prompt, case.target] for case in cases])
    return sha256(text.encode()).hexdigest()


class ScorePart:
    """The file beside `table`. `write` puts a text under a name, whole or not at all.

    WhitedwarfError where it cannot be written.
    """

    def __init__(self, table: Path, measured: Mapping[str, object], write: Write) -> None:
        self.path = table.with_name(f"{table.name}.part")
        self._first = json.dumps(measured, sort_keys=True)
        self._write = write

    def scores(self) -> list[Score]:
        """What is there of the same measurement."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]  # what has no line end was cut off
        except (OSError, UnicodeDecodeError):
            return []
        if not lines or lines[0] != self._first:
            return []
        try:
            return [Score(**json.loads(line)) for line in lines[1:]]
        except (ValueError, TypeError):
            return []

    def begin(self, scores: Sequence[Score]) -> None:
        """Write the file anew, with what is known."""
        self._write(self.path, "".join(f"{line}\n" for line in (self._first, *map(_line, scores))))

    def add(self, score: Score) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{_line(score)}\n")
        except OSError as error:
            raise WhitedwarfError(f"cannot write {self.path}: {error.strerror}") from error

    def remove(self) -> None:
        """The table is written: the part has done its work."""
        self.path.unlink(missing_ok=True)


def _line(score: Score) -> str:
    return json.dumps(asdict(score))
