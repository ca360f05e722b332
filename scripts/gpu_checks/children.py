"""The processes of a check: started with a share of a part's cases, watched, and started again after the case that cost
them the device or hung.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_checks.case import DEVICE_LOST, Ledger, Outcome, read_ledger

SCRIPT = Path(__file__).resolve().parents[1] / "gpu_check.py"
MOST_RESTARTS = 12
TOLD_BYTES = 1500  # of what a dead process wrote last
POLL_S = 0.2


@dataclass
class Child:
    """One process, whichever time it is started."""

    part: str
    index: int
    count: int
    folder: Path
    options: Sequence[str]
    environment: dict[str, str]
    restarts: int = 0
    is_over: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def ledger(self) -> Path:
        return self.folder / f"{self.part}-{self.index}.jsonl"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.part}-{self.index}.log"

    def start(self, until: float) -> None:
        share = ["--child", self.part, "--share", f"{self.index}/{self.count}", "--ledger", str(self.ledger)]
        command = [sys.executable, str(SCRIPT), *share, "--until", str(until), *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )

    def look(self, until: float) -> None:
        """See whether it has ended or hangs; start it again where that may help."""
        process = self.process
        if self.is_over or process is None:
            return
        current = self.current()
        code = process.poll()
        if code is None:
            if current is None or time.monotonic() - current.begun < current.limit_s:
                return
            self.kill()
            self._fail(current, f"took longer than {current.limit_s:.0f} s and was ended")
        elif code == 0:
            self.is_over = True
            return
        elif current is not None:
            self._fail(current, f"the process ended with {code}: {self._last_words()}")
        elif not self._is_lost(code):
            self._fail(Outcome(self.part, f"process {self.index}", ""), f"it ended with {code}: {self._last_words()}")
        self.restarts += 1
        self.is_over = self.restarts > MOST_RESTARTS or (current is None and not self._is_lost(code))
        if not self.is_over and time.monotonic() < until:
            self.start(until)

    def stop(self) -> None:
        """There is no more time for it."""
        self.kill()
        if not self.is_over and (current := self.current()) is not None:
            Ledger(self.ledger).tell(part=current.part, name=current.name, state="skipped", message="its time was over")
        self.is_over = True

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def current(self) -> Outcome | None:
        """The case it is at."""
        return next((outcome for outcome in read_ledger(self.ledger) if outcome.state == "begun"), None)

    def _is_lost(self, code: int | None) -> bool:
        return code == DEVICE_LOST

    def _fail(self, current: Outcome, message: str) -> None:
        Ledger(self.ledger).tell(part=current.part, name=current.name, state="failed", message=message)

    def _last_words(self) -> str:
        return self.log.read_bytes()[-TOLD_BYTES:].decode(errors="replace")


def run_children(children: Sequence[Child], until: float, tell: Callable[[], None]) -> None:
    """Until all are over, or time is; `tell` is called now and then."""
    for child in children:
        child.start(until)
    while not all(child.is_over for child in children) and time.monotonic() < until:
        time.sleep(POLL_S)
        for child in children:
            child.look(until)
        tell()
    for child in children:
        child.stop()
    tell()
