"""A supervisor's status for people: a line for each model, and below them what they should know. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TITLES = ("MODEL", "PORT", "STATE", "REQUESTS", "IDLE", "RELEASE IN", "CONTEXT", "PID")
_GAP = "  "


def status_lines(status: Mapping[str, Any]) -> list[str]:
    """Of what `/__supervisor/status` says."""
    models: Sequence[Mapping[str, Any]] = status.get("models") or ()
    rows = [_TITLES, *(_row(model) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *_notes(models)]


def _row(model: Mapping[str, Any]) -> tuple[str, ...]:
    waiting = model.get("waiting") or 0
    requests = str(model.get("in_flight") or 0) + (f" +{waiting} waiting" if waiting else "")
    return (
        str(model.get("key")),
        str(model.get("public_port")),
        "external" if model.get("kind") == "external" else str(model.get("state")),
        requests,
        duration(model.get("idle_s")),
        duration(model.get("release_in_s")),
        _context(model),
        str(model.get("pid") or "-"),
    )


def _context(model: Mapping[str, Any]) -> str:
    size, soft = model.get("context_size") or 0, model.get("soft_limit") or 0
    if not size:
        return "unknown"
    return f"{size} (soft {soft})" if soft else str(size)


def duration(seconds: object) -> str:
    """Short: 5 s, 3 min, 2 h."""
    if not isinstance(seconds, int | float):
        return "-"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.0f} h"


def _notes(models: Iterable[Mapping[str, Any]]) -> list[str]:
    notes = []
    for model in models:
        told = [model.get("loading_text"), model.get("failure"), *(model.get("warnings") or ())]
        if str(model.get("counting") or "").startswith("unavailable"):
            told.append(f"prompts cannot be counted, so the soft limit does nothing: {model.get('counting')}")
        notes += [f"{model.get('key')}: {' '.join(str(line).split())}" for line in told if line]
    return notes
