"""What all instruments do with what they found: a table, one JSON document as the last line, and files if asked for.

Files are checked before anything is measured.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from whitedwarf.cli.output_file import check_output, write_text

_OUTPUT = Group.create_ordered("Output")


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """Where figures go besides standard output."""

    json_file: Annotated[Path | None, Parameter(name="--json")] = None
    """Also write the JSON document to this file."""

    def check(self, sources: Iterable[Path] = ()) -> None:
        """UsageError where the file cannot be written."""
        if self.json_file is not None:
            check_output(self.json_file, sources)

    def finish(self, table: str, document: Mapping[str, object]) -> None:
        """Print, and write what was asked for."""
        line = json.dumps(document)
        try:
            if self.json_file is not None:
                write_text(self.json_file, line + "\n")
                told(self.json_file)
        finally:  # each of them also where the other's place is full or gone
            print(table)
            print(line)


def told(path: Path) -> None:
    """A line for the user about a file that is there now."""
    print(f"whitedwarf: wrote {path}", file=sys.stderr)


DEFAULT_OUTPUT = OutputSettings()
