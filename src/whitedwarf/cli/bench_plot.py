"""`whitedwarf bench plot`: a picture of a CSV file of context frontiers, ours or another tool's with its columns."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.frontiers import read_csv
from whitedwarf.bench.plot import Picture, check_plot, draw_speeds
from whitedwarf.cli.bench_output import told
from whitedwarf.cli.output_file import check_output

SIZE = Number(gte=200, lte=10_000)


def command(
    csv_file: Path,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=("--out", "-o"))] = None,
    title: str | None = None,
    width: Annotated[int, Parameter(validator=SIZE)] = 960,
    height: Annotated[int, Parameter(validator=SIZE)] = 540,
) -> None:
    """Draw prefill (left, blue) and decode (right, red) over the context length.

    Parameters
    ----------
    csv_file
        A file with the columns ctx_tokens, prefill_tps and gen_tps, and at least two rows.
    out
        The picture (.svg, .png). Default: beside the CSV file, with _ts.svg at its end.
    title
        Default: the name of the CSV file.
    width
        In pixels.
    height
        In pixels.
    """
    picture = out or csv_file.with_name(f"{csv_file.stem}_ts.svg")
    points = read_csv(csv_file)
    check_output(picture, [csv_file])
    check_plot(picture)
    draw_speeds(points, Picture(picture, title or _title(csv_file), width, height))
    told(picture)


def _title(csv_file: Path) -> str:
    return csv_file.stem.replace("_", " ")
