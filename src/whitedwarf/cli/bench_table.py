"""`whitedwarf bench table`: figures of result files as a Markdown table, and such tables in a page made again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

from cyclopts import Parameter

from whitedwarf.bench.figure_table import renewed, table_text
from whitedwarf.bench.results import Kind, newest, results_in
from whitedwarf.cli.bench_output import told
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError


def command(
    *files: Path,
    kinds: Annotated[tuple[Kind, ...], Parameter(name="--kind")] = (),
    into: Path | None = None,
    check: bool = False,
) -> None:
    """Tell the speeds in result files as a Markdown table; each once, the newest, beside a peer where there is one.

    Parameters
    ----------
    files
        Documents of bench, bench peers, points, batch and serve (--json), or folders of them.
    kinds
        Only documents of this kind; repeatable.
    into
        A page in which to make every table again that stands between `<!-- whitedwarf bench table FILES -->` and
        `<!-- end of bench table -->`; paths are as seen from its folder.
    check
        Write nothing: exit code 1 where --into would change the page.
    """
    if into is None:
        if check or not files:
            raise UsageError("give result files, or --into PAGE to make its tables again (--check to compare only)")
        print(_table(files, kinds))
        return
    if files or kinds:
        raise UsageError("--into takes the files from the page's own marks: leave them out")
    if not check:
        check_output(into)
    page = read_text(str(into))
    made = renewed(page, lambda words: _marked(words, into.parent, into), str(into))
    if check:
        if made != page:
            raise WhitedwarfError(
                f"{into} has other figures than its result files: `whitedwarf bench table --into {into}`"
            )
        return
    write_text(into, made)
    told(into)


def _table(files: Sequence[Path], kinds: Sequence[Kind]) -> str:
    figures = [figure for result in results_in(files, kinds) for figure in result.figures()]
    if not figures:
        raise UsageError("there are no tokens per second in these documents; `bench plot` draws those of kernels")
    return table_text(newest(figures))


def _marked(words: Sequence[str], folder: Path, page: Path) -> str:
    """The table of a mark's files and kinds."""
    files: list[Path] = []
    kinds: list[Kind] = []
    rest = iter(words)
    for word in rest:
        if word != "--kind":
            files.append(folder / word)
            continue
        kind = next((known for known in get_args(Kind) if known == next(rest, "")), None)
        if kind is None:
            raise FileFormatError(f"{page}: expected --kind and one of {', '.join(get_args(Kind))} in its mark")
        kinds.append(kind)
    return _table(files, kinds)
