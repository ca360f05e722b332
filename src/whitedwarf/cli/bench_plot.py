"""`whitedwarf bench plot`: a picture of CSV files of context frontiers, ours or another tool's, or of result files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.frontiers import Speeds, read_csv
from whitedwarf.bench.plot import (
    Bar,
    Curve,
    Picture,
    check_plot,
    draw_curves,
    draw_figures,
    draw_shares,
    draw_speeds,
)
from whitedwarf.bench.results import Figure, Result, newest, read_result, results_in
from whitedwarf.cli.bench_output import told
from whitedwarf.cli.output_file import check_output
from whitedwarf.errors import UsageError

SIZE = Number(gte=200, lte=10_000)
WIDTH, HEIGHT = 960, 540
HEIGHT_OF_A_ROW = 24
DRAWN = (
    "CSV files and documents of bench; documents of bench kernels; or documents of bench peers, points, batch and serve"
)
Draw = Callable[[Picture], None]


def command(
    *files: Path,
    out: Annotated[Path | None, Parameter(name=("--out", "-o"))] = None,
    title: str | None = None,
    width: Annotated[int, Parameter(validator=SIZE)] = WIDTH,
    height: Annotated[int | None, Parameter(validator=SIZE)] = None,
) -> None:
    """Draw speeds: prefill and decode over the context length, or bars with their spread, a peer's and the limit.

    Of one CSV file: prefill on the left axis in blue, decode on the right in red. Of several: a panel for each, and a
    colour for each file.

    Parameters
    ----------
    files
        CSV files with the columns ctx_tokens, prefill_tps and gen_tps and at least two rows, and documents of `bench`;
        or documents of `bench peers`, `points`, `batch` and `serve`; or of `bench kernels`. A folder: all of its
        speeds, without contexts and kernels.
    out
        The picture (.svg, .png, .pdf). Default for one file: beside it, with _ts.svg at its end.
    title
        Default: the name of the file, or the machine.
    width
        In pixels.
    height
        In pixels. Default: 540, and more for many bars.
    """
    if not files:
        raise UsageError("expected at least one file to draw")
    if out is None and (len(files) > 1 or files[0].is_dir()):
        raise UsageError("several files become one picture: give its name with --out")
    picture = out or files[0].with_name(f"{files[0].stem}_ts.svg")
    default_title, rows, draw = _drawing(files)
    check_output(picture, files)
    check_plot(picture)
    tall = height or max(HEIGHT, 100 + HEIGHT_OF_A_ROW * rows)
    draw(Picture(picture, title or default_title, width, min(tall, 10_000)))
    told(picture)


def _drawing(files: Sequence[Path]) -> tuple[str, int, Draw]:
    """A title, the number of bars, and what draws."""
    csv_files = [file for file in files if file.suffix.lower() != ".json" and not file.is_dir()]
    results = [result for file in files if file not in csv_files for result in _results(file)]
    kinds = {result.kind for result in results}
    if kinds <= {"contexts"}:
        return _curves(csv_files, results)
    if csv_files or ("kernels" in kinds and len(kinds) > 1):
        raise UsageError(f"these do not go into one picture: expected {DRAWN}")
    return _shares(results) if kinds == {"kernels"} else _figures(results)


def _results(file: Path) -> list[Result]:
    return results_in([file], ("peers", "points", "batch", "serve")) if file.is_dir() else [read_result(file)]


def _curves(csv_files: Sequence[Path], results: Sequence[Result]) -> tuple[str, int, Draw]:
    curves = [Curve(_title(file), read_csv(file)) for file in csv_files]
    curves += [Curve(_title(result.path), result.curve()) for result in results]
    if len(curves) > 1:
        return "Tokens per second by context", 0, lambda picture: draw_curves(curves, picture)
    points: Sequence[Speeds] = curves[0].points
    return curves[0].name, 0, lambda picture: draw_speeds(points, picture)


def _figures(results: Sequence[Result]) -> tuple[str, int, Draw]:
    figures = newest([figure for result in results for figure in result.figures()])
    machines = list(dict.fromkeys(figure.machine for figure in figures))
    labels = [_label(figure, is_alone=len(machines) == 1) for figure in figures]
    if not figures:
        raise UsageError("there are no tokens per second in these documents")
    rows = max(sum(figure.phase == phase for figure in figures) for phase in ("prefill", "decode"))
    title = machines[0] if len(machines) == 1 and machines[0] else "Tokens per second"
    return title, 2 * rows, lambda picture: draw_figures(figures, picture, labels)


def _label(figure: Figure, *, is_alone: bool) -> str:
    name = f"{figure.model}: {figure.name}"
    return name if is_alone else f"{name}\n{figure.machine}"


def _shares(results: Sequence[Result]) -> tuple[str, int, Draw]:
    """A series for each level, and for each file where there are several."""
    shares: dict[str, dict[str, float]] = {}
    for result in results:
        of_file = "" if len(results) == 1 else f", {_title(result.path)}"
        for name, levels in result.shares().items():
            shares.setdefault(name, {}).update({f"{level}{of_file}": share for level, share in levels.items()})
    bars = [Bar(name, found) for name, found in shares.items()]
    title = f"Kernels on {results[0].machine}" if len(results) == 1 else "Kernels"
    return title, len(bars), lambda picture: draw_shares(bars, picture)


def _title(file: Path) -> str:
    return file.stem.replace("_", " ")
