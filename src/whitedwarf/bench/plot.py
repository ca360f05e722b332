"""Pictures of what was measured, with matplotlib (the extra `bench`): the one place that knows it.

A curve of context frontiers has two axes, prefill on the left in blue and decode on the right in red; several curves
have a panel for each. Single figures are bars with their spread, beside a peer's, with the limit as a line.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from whitedwarf.bench.frontiers import Speeds
from whitedwarf.bench.results import Figure, Rate
from whitedwarf.errors import UsageError, WhitedwarfError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

PREFILL_COLOUR, DECODE_COLOUR = "#1f5fbf", "#c22f2f"
OUR_COLOUR, PEER_COLOUR = "#1f5fbf", "#9a9a9a"
DOTS_PER_INCH = 96
SUFFIXES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True)
class Picture:
    """Where it goes, what it is called, and its size in pixels."""

    path: Path
    title: str
    width: int = 960
    height: int = 540


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart: what it stands for and the share of the limit reached, by series."""

    name: str
    shares: dict[str, float]


def check_plot(path: Path) -> None:
    """UsageError where matplotlib is missing or the name says no format: asked before anything is measured."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"cannot draw {path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UsageError("drawing needs matplotlib, which is not installed: pip install 'whitedwarf[bench]'")


def draw_speeds(points: Sequence[Speeds], picture: Picture) -> None:
    """Prefill and decode over the context length."""
    figure, (left,) = _figure(picture)
    contexts = [point.context_tokens for point in points]
    left.plot(contexts, [p.prefill_tokens_per_s for p in points], color=PREFILL_COLOUR, marker="o", markersize=4)
    left.set_xlabel("context (tokens)")
    left.set_ylabel("prefill (tokens/s)", color=PREFILL_COLOUR)
    left.tick_params(axis="y", labelcolor=PREFILL_COLOUR)
    left.set_ylim(bottom=0)
    if any(point.decode_tokens_per_s for point in points):
        right = left.twinx()
        right.plot(contexts, [p.decode_tokens_per_s for p in points], color=DECODE_COLOUR, marker="s", markersize=4)
        right.set_ylabel("decode (tokens/s)", color=DECODE_COLOUR)
        right.tick_params(axis="y", labelcolor=DECODE_COLOUR)
        right.set_ylim(bottom=0)
    left.grid(alpha=0.3)
    _save(figure, picture)


@dataclass(frozen=True, slots=True)
class Curve:
    """One machine, version or file among several."""

    name: str
    points: Sequence[Speeds]


def draw_curves(curves: Sequence[Curve], picture: Picture) -> None:
    """Several curves, prefill on the left and decode on the right, each curve in a colour of its own."""
    figure, panels = _figure(picture, 2)
    for panel, phase in zip(panels, ("prefill", "decode"), strict=True):
        for curve in curves:
            contexts = [point.context_tokens for point in curve.points]
            rates = [getattr(point, f"{phase}_tokens_per_s") for point in curve.points]
            if any(rates):
                panel.plot(contexts, rates, marker="o", markersize=4, label=_plain(curve.name))
        panel.set_xlabel("context (tokens)")
        panel.set_ylabel(f"{phase} (tokens/s)")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(fontsize=8)
    _save(figure, picture)


def draw_figures(figures: Sequence[Figure], picture: Picture, labels: Sequence[str]) -> None:
    """A bar with its quartiles for each figure, a peer's below it, and how much of the limit that is.

    Prefill and decode have a panel each. A limit far beyond the bars is told in numbers only.
    """
    phases = [phase for phase in ("prefill", "decode") if any(figure.phase == phase for figure in figures)]
    figure, panels = _figure(picture, len(phases))
    for panel, phase in zip(panels, phases, strict=True):
        shown = [(label, item) for label, item in zip(labels, figures, strict=True) if item.phase == phase]
        _draw_bars(panel, shown)
        panel.set_xlabel(f"{phase} (tokens/s)")
    handles = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=8)
    _save(figure, picture)


def _draw_bars(panel: "Axes", shown: Sequence[tuple[str, Figure]]) -> None:
    sides: list[tuple[str, str, list[Rate | None]]] = [(OUR_COLOUR, "whitedwarf", [item.ours for _, item in shown])]
    if any(item.theirs for _, item in shown):
        sides.append((PEER_COLOUR, "llama.cpp", [item.theirs for _, item in shown]))
    thickness = 0.8 / len(sides)
    for number, (colour, name, rates) in enumerate(sides):
        bars = [(row + number * thickness, rate) for row, rate in enumerate(rates) if rate is not None]
        lengths = [rate.middle for _, rate in bars]
        spread = [
            [max(0.0, rate.middle - rate.low) for _, rate in bars],
            [max(0.0, rate.high - rate.middle) for _, rate in bars],
        ]
        panel.barh([row for row, _ in bars], lengths, thickness, xerr=spread, color=colour, label=name, capsize=2)
    longest = max(rate.high for _, _, rates in sides for rate in rates if rate is not None)
    for row, (_, item) in enumerate(shown):
        if item.limit is not None and item.limit <= 2 * longest:
            panel.vlines(item.limit, row - thickness / 2, row + 0.8 - thickness / 2, color="black", linewidth=1.2)
    places = [row + 0.4 - thickness / 2 for row in range(len(shown))]
    panel.set_yticks(places, [_with_share(_plain(label), item) for label, item in shown], fontsize=7)
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)


def _with_share(label: str, figure: Figure) -> str:
    return label if figure.of_limit is None else f"{label}\n{figure.of_limit:.1%} of the limit"


def draw_shares(bars: Sequence[Bar], picture: Picture) -> None:
    """Horizontal bars from 0 to 1 of what the machine could, one group for each name."""
    figure, (axes,) = _figure(picture)
    series = sorted({name for bar in bars for name in bar.shares})
    thickness = 0.8 / max(len(series), 1)
    for number, name in enumerate(series):
        places = [row + number * thickness for row, bar in enumerate(bars) if name in bar.shares]
        axes.barh(places, [bar.shares[name] for bar in bars if name in bar.shares], thickness, label=_plain(name))
    names = [_plain(bar.name) for bar in bars]
    axes.set_yticks([row + 0.4 - thickness / 2 for row in range(len(bars))], names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("share of the limit that binds")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.legend(fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    _save(figure, picture)


def _figure(picture: Picture, num_panels: int = 1) -> "tuple[MatplotlibFigure, Sequence[Axes]]":
    from matplotlib.figure import Figure as MatplotlibFigure  # without pyplot: no window, no global state

    size = picture.width / DOTS_PER_INCH, picture.height / DOTS_PER_INCH
    figure = MatplotlibFigure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(1, num_panels, squeeze=False)[0]
    if num_panels == 1:
        panels[0].set_title(_plain(picture.title))
    else:
        figure.suptitle(_plain(picture.title))
    return figure, panels


def _plain(text: str) -> str:
    """Names as they are: no formula between dollars, and nothing that cannot stand in a picture."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text).replace("$", r"\$")


def _save(figure: "MatplotlibFigure", picture: Picture) -> None:
    import matplotlib as mpl

    path = picture.path
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with mpl.rc_context({"svg.hashsalt": "whitedwarf"}), warnings.catch_warnings():
            # the same figures give the same file; a character that the font lacks is drawn as a box
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(partial, metadata=metadata)
        partial.replace(path)
    except OSError as error:
        raise WhitedwarfError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
