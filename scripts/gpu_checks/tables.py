"""What a check found, for people: tables by rich where it is there, else plain, and the few figures that matter."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

from gpu_checks.case import Outcome

WIDTH = 150
WORST = 12  # of the cases that are right, those farthest off
OPERATIONS = 25
Row = Sequence[object]


def text(outcomes: Sequence[Outcome]) -> str:
    """All tables, the failures in full at the end."""
    copied = copy_speed(outcomes)
    parts = [
        _device(outcomes),
        _compared(outcomes),
        _parity(outcomes),
        _decode(outcomes, copied),
        _prefill(outcomes),
        *(_operations(outcome, copied) for outcome in _of(outcomes, "speed", "operations ")),
        *(_profile(outcome) for outcome in _of(outcomes, "speed", "profile ")),
        _left_out(outcomes),
        *(f"FAILED {outcome.part}: {outcome.name}\n{outcome.message}" for outcome in failures(outcomes)),
    ]
    return "\n\n".join(part for part in parts if part)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures that matter, small enough for one line."""
    copied = copy_speed(outcomes)
    device = next(iter(_of(outcomes, "bandwidth", "device")), None)
    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in ("ok", "failed", "skipped")}
    return {
        "device": device.figures if device else None,
        "copy_bytes_per_s": copied,
        "cases": counts,
        "failed": [f"{outcome.part}: {outcome.name}" for outcome in failures(outcomes)][:40],
        "decode": {
            outcome.name.removeprefix("decode "): {
                "tokens_per_s": round(outcome.figures["tokens_per_s"], 2),
                "of_copy": _rounded(outcome.figures["bytes_per_s"], copied),
            }
            for outcome in _of(outcomes, "speed", "decode ")
        },
        "prefill": {
            outcome.name.removeprefix("prefill "): round(outcome.figures["tokens_per_s"], 1)
            for outcome in _of(outcomes, "speed", "prefill ")
        },
    }


def line(outcome: Outcome) -> str:
    """One case, as it ends."""
    figures = ", ".join(f"{name} {_short(value)}" for name, value in outcome.figures.items() if _is_figure(value))
    reason = outcome.message.strip().splitlines()[-1] if outcome.message else ""
    return f"{outcome.state:8}{outcome.part:10}{outcome.name:44} {outcome.seconds:6.1f} s  {figures}  {reason}"[:260]


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.state == "failed"]


def copy_speed(outcomes: Sequence[Outcome]) -> float | None:
    """Bytes a second, read and written."""
    return next((outcome.figures["bytes_per_s"] for outcome in _of(outcomes, "bandwidth", "copy")), None)


def _device(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (name, value if not isinstance(value, float) else _short(value))
        for outcome in _of(outcomes, "bandwidth", "")
        for name, value in outcome.figures.items()
    ]
    return _table("Device", ("what", "value"), rows)


def _compared(outcomes: Sequence[Outcome]) -> str:
    own = [outcome for outcome in outcomes if outcome.part in ("layers", "ops", "spans")]
    right = [outcome for outcome in own if outcome.state == "ok"]
    farthest = sorted(right, key=lambda outcome: -_nearness(outcome))[:WORST]
    rows = [
        (
            o.name,
            _short(o.figures.get("error", 0.0)),
            _short(o.figures.get("limit", 0.0)),
            _short(o.figures.get("same", 1)),
        )
        for o in farthest
    ]
    title = f"Operations against their twins: {len(right)} of {len(own)} right; those farthest off:"
    return _table(title, ("operation", "error", "limit", "same"), rows) if own else ""


def _nearness(outcome: Outcome) -> float:
    return float(outcome.figures.get("error", 0.0)) / (outcome.figures.get("limit") or 1.0)


def _parity(outcomes: Sequence[Outcome]) -> str:
    keys = ("truth", "error", "most_errors", "median_error", "tokens", "same_tokens", "replayed")
    own = [outcome for outcome in outcomes if outcome.part == "parity"]
    rows = [(o.name, o.state, *(_short(o.figures.get(key, "")) for key in keys)) for o in own]
    return _table("Whole models against the CPU", ("model", "state", *keys), rows) if own else ""


def _decode(outcomes: Sequence[Outcome], copied: float | None) -> str:
    rows = [
        (
            o.name,
            f"{o.figures['tokens_per_s']:.1f}",
            f"{o.figures['step_s'] * 1e3:.2f}",
            f"{o.figures['fastest_s'] * 1e3:.2f}-{o.figures['slowest_s'] * 1e3:.2f}",
            f"{o.figures['weight_bytes'] / 1e9:.2f}",
            f"{o.figures['kv_bytes'] / 1e9:.3f}",
            f"{o.figures['bytes_per_s'] / 1e9:.0f}",
            _percent(o.figures["bytes_per_s"], copied),
            f"{o.figures['replayed']:.0%}",
        )
        for o in _of(outcomes, "speed", "decode ")
    ]
    columns = ("decode", "t/s", "ms/step", "range", "GB weights", "GB rows", "GB/s", "of copy", "replayed")
    return _table("Decode", columns, rows) if rows else ""


def _prefill(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (o.name, f"{o.figures['tokens_per_s']:.0f}", f"{o.figures['operations_per_s'] / 1e12:.1f}")
        for o in _of(outcomes, "speed", "prefill ")
    ]
    return _table("Prefill", ("prompt", "t/s", "TFLOP/s"), rows) if rows else ""


def _operations(outcome: Outcome, copied: float | None) -> str:
    rows = [
        (
            row["operation"][:60],
            row["calls"],
            f"{row['call_s'] * 1e6:.1f}",
            f"{row['total_s'] * 1e3:.3f}",
            f"{row['share']:.1%}",
            f"{row['bytes_per_s'] / 1e9:.0f}",
            _percent(row["bytes_per_s"], copied),
            f"{row['operations_per_s'] / 1e12:.1f}",
        )
        for row in outcome.figures["operations"]
        if "call_s" in row
    ]
    columns = ("operation", "calls", "us", "ms in all", "share", "GB/s", "of copy", "TFLOP/s")
    title = f"{outcome.name}: {outcome.figures['total_s'] * 1e3:.2f} ms in all"
    errors = "\n".join(outcome.figures["errors"])
    return "\n".join([_table(title, columns, rows[:OPERATIONS]), errors]).strip()


def _profile(outcome: Outcome) -> str:
    rows = [(row["kernel"], row["calls"], f"{row['total_s'] * 1e3:.3f}") for row in outcome.figures["kernels"]]
    title = f"{outcome.name}: {outcome.figures['total_s'] * 1e3:.2f} ms on the device"
    return _table(title, ("kernel", "calls", "ms"), rows)


def _left_out(outcomes: Sequence[Outcome]) -> str:
    left_out = [
        f"{outcome.part}: {outcome.name} ({outcome.message})" for outcome in outcomes if outcome.state == "skipped"
    ]
    return "Left out:\n" + "\n".join(left_out) if left_out else ""


def _of(outcomes: Sequence[Outcome], part: str, name: str) -> list[Outcome]:
    """Those that are right, whose names begin so."""
    return [o for o in outcomes if o.part == part and o.state == "ok" and o.name.startswith(name)]


def _table(title: str, columns: Sequence[str], rows: Sequence[Row]) -> str:
    cells = [[str(cell) for cell in row] for row in rows]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in [list(columns), *cells]) for i in range(len(columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [columns, *cells]
        ]
        return "\n".join([title, *(line.rstrip() for line in lines)])
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None)
    console.print(table, markup=False)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join([title, *(line.rstrip() for line in file.getvalue().rstrip().splitlines())])


def _percent(value: float, whole: float | None) -> str:
    return f"{value / whole:.0%}" if whole else ""


def _rounded(value: float, whole: float | None) -> float | None:
    return round(value / whole, 3) if whole else None


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _short(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}"
