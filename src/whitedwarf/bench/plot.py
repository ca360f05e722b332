"""Pictures of what was measured, with matplotlib (the extra `bench`): the one place that knows it.

Curves of context frontiers have two axes, prefill on the left in blue and decode on the right in red.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from whitedwarf.bench.frontiers import Speeds
from whitedwarf.errors import UsageError, WhitedwarfError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREFILL_COLOUR, DECODE_COLOUR = "#1f5fbf", "#c22f2f"
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
    figure, left = _figure(picture)
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


def draw_shares(bars: Sequence[Bar], picture: Picture) -> None:
    """Horizontal bars from 0 to 1 of what the machine could, one group for each name."""
    figure, axes = _figure(picture)
    series = sorted({name for bar in bars for name in bar.shares})
    thickness = 0.8 / max(len(series), 1)
    for number, name in enumerate(series):
        places = [row + number * thickness for row, bar in enumerate(bars) if name in bar.shares]
        axes.barh(places, [bar.shares[name] for bar in bars if name in bar.shares], thickness, label=name)
    axes.set_yticks([row + 0.4 - thickness / 2 for row in range(len(bars))], [bar.name for bar in bars], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("share of the limit that binds")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.legend(fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    _save(figure, picture)


def _figure(picture: Picture) -> "tuple[Figure, Axes]":
    import matplotlib as mpl
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    mpl.rcParams["svg.hashsalt"] = "whitedwarf"  # the same figures give the same file
    size = picture.width / DOTS_PER_INCH, picture.height / DOTS_PER_INCH
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    axes.set_title(picture.title)
    return figure, axes


def _save(figure: "Figure", picture: Picture) -> None:
    path = picture.path
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(partial, metadata=metadata)
        partial.replace(path)
    except OSError as error:
        raise WhitedwarfError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
