"""`whitedwarf score compare`: two tables of `score run`, side by side (spec/product.md E.4)."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.evals.score.comparison import compare, report
from whitedwarf.evals.score.score_table import read_table


def command(old: Path, new: Path, /, *, as_json: Annotated[bool, Parameter(name="--json")] = False) -> None:
    """Say which of two models finds the same continuations likelier, and where they differ most.

    Parameters
    ----------
    old
        A table that `score run` wrote.
    new
        Another one, over the same manifest.
    as_json
        One JSON object instead of lines.
    """
    found = compare(read_table(old), read_table(new))
    if as_json:
        print(json.dumps(found.as_json()))
        return
    for line in report(found):
        print(line)
