"""A case of a check: one thing to run, which may fail, hang or take the process with it without harm to the others.

A part runs in a process of its own and tells what happens in a file of lines, one JSON document each, as it happens.
Whoever reads the file knows which case a dead process was at.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEVICE_LOST = 70  # exit code: nothing more can be done on the device by this process
LONGEST_ERROR = 4000  # characters told of one


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to run. `run` returns figures; `ok` among them says whether they are as they should be."""

    part: str
    name: str
    run: Callable[[], dict[str, Any]]
    needs_s: float = 2.0  # is not begun where less is left
    limit_s: float = 150.0  # a process that is at it for longer is ended
    group: str = ""  # cases of one group run in one process; empty = a group of its own


class CaseError(Exception):
    """A case whose result is not what it should be; `figures` say how far off."""

    def __init__(self, message: str, **figures: Any) -> None:
        super().__init__(message)
        self.figures = figures


@dataclass(slots=True)
class Outcome:
    """What is known of a case."""

    part: str
    name: str
    state: str  # begun, ok, failed, skipped
    figures: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0
    limit_s: float = 0.0
    begun: float = 0.0  # time.monotonic of this machine


class Ledger:
    """The file in which a process tells what it does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tell(self, **fields: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields, default=str) + "\n")


def read_ledger(path: Path) -> list[Outcome]:
    """Every case the file tells of, in the order in which they were begun; a half-written last line is left out."""
    found: dict[str, Outcome] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            found[fields["name"]] = Outcome(**fields)
    return list(found.values())


def run_cases(
    cases: Iterable[Case], ledger: Ledger, until: float, done: Sequence[str], synchronise: Callable[[], None]
) -> None:
    """All cases but those done; leaves the process where a failure has cost it the device."""
    for case in cases:
        if case.name in done:
            continue
        begun = time.monotonic()
        fields: dict[str, Any] = {"part": case.part, "name": case.name, "begun": begun}
        if until - begun < case.needs_s:
            reason = f"needs {case.needs_s:.0f} s, {until - begun:.0f} s are left"
            ledger.tell(**fields, state="skipped", message=reason)
            continue
        ledger.tell(**fields, state="begun", limit_s=case.limit_s)
        try:
            figures = case.run()
            synchronise()
            fields |= {"state": "ok", "figures": figures}
        except CaseError as failure:
            fields |= {"state": "failed", "figures": failure.figures, "message": str(failure)}
        except Exception:
            fields |= {"state": "failed", "message": traceback.format_exc()[-LONGEST_ERROR:]}
        ledger.tell(**fields, seconds=time.monotonic() - begun)
        if fields["state"] == "failed":
            _check_device(synchronise)


def share_of(cases: Iterable[Case], index: int, count: int) -> Iterator[Case]:
    """Those of every `count`th group, from the `index`th on."""
    groups: dict[str, int] = {}
    for case in cases:
        if groups.setdefault(case.group or case.name, len(groups)) % count == index:
            yield case


def _check_device(synchronise: Callable[[], None]) -> None:
    try:
        synchronise()
    except Exception:
        sys.stderr.flush()
        os._exit(DEVICE_LOST)
