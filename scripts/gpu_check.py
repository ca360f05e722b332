"""Check the GPU backend on a machine with a GPU and nothing but PyTorch, Triton, numpy and this repository.

    python scripts/gpu_check.py [--budget 540] [--only PART] [--json] [--simulate]

Parts: bandwidth (the device's ceilings), ops (every kernel against its twin), parity (whole models against the CPU),
speed (a Flash made from a seed: prefill, decode, every operation alone, profiles). Each runs in processes of its own,
so whatever goes wrong is told and the rest goes on. Prints tables and, as the last line, one JSON document; where OUT
names a folder, check.json, check.txt, failures.txt and profile.txt are written there as things become known.
Exit code 1 if a case failed. --simulate plays all of it through on a CPU: a tiny model, the kernels interpreted.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gpu_checks.case import Ledger, Outcome, read_ledger, run_cases, share_of
from gpu_checks.children import Child, run_children
from gpu_checks.native import start_build, use_built
from gpu_checks.tables import failures, line, summary, text

PR_SET_PDEATHSIG = 1
PARTS = ("bandwidth", "ops", "parity", "speed")
BUDGET_S = 540.0
CLOSING_S = 8.0  # to tell what was found
BANDWIDTH_S = 60.0
FIRST_SHARE = 0.5  # of the time: for what is right; the rest is for what is fast
OPS_PROCESSES, PARITY_PROCESSES = 8, 5


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    if arguments.child:
        _run_child(arguments)
        return 0
    return Check(arguments).run()


class Check:
    """One run of everything that was asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.begun = time.monotonic()
        self.end = self.begun + arguments.budget - CLOSING_S
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-check-"))
        self.out = Path(os.environ["OUT"]) if os.environ.get("OUT") else None
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        self.children: list[Child] = []
        self._told: set[tuple[str, str]] = set()

    def run(self) -> int:
        parts = [self.arguments.only] if self.arguments.only else PARTS
        build = None if self.arguments.simulate else start_build(self.folder / "native")
        if "bandwidth" in parts:
            self._phase([self._child("bandwidth", 0, 1)], self.begun + BANDWIDTH_S)
        correct = [part for part in ("ops", "parity") if part in parts]
        middle = self.begun + FIRST_SHARE * self.arguments.budget if "speed" in parts else self.end
        self._phase([child for part in correct for child in self._workers(part)], middle)
        if build is not None and build.poll() is None:
            build.kill()
        if "speed" in parts:
            self._phase([self._child("speed", 0, 1)], self.end)
        return self._close()

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for child in self.children for outcome in read_ledger(child.ledger)]

    def _phase(self, children: list[Child], until: float) -> None:
        self.children += children
        run_children(children, min(until, self.end), self._tell)

    def _workers(self, part: str) -> list[Child]:
        count = 1 if self.arguments.simulate else {"ops": OPS_PROCESSES, "parity": PARITY_PROCESSES}[part]
        return [self._child(part, index, count) for index in range(count)]

    def _child(self, part: str, index: int, count: int) -> Child:
        options = ["--simulate"] if self.arguments.simulate else []
        if self.arguments.twins or (self.arguments.simulate and part != "ops"):  # interpreted, a model takes minutes
            options.append("--twins")
        profile = (self.out or self.folder) / "profile.txt"
        options += ["--profile", str(profile), "--native", str(self.folder / "native")]
        environment = dict(os.environ)
        environment["OMP_NUM_THREADS"] = "1" if self.arguments.simulate else "4"
        if self.arguments.simulate:
            environment["TRITON_INTERPRET"] = "1"
        return Child(part, index, count, self.folder, options, environment)

    def _tell(self) -> None:
        """Print what has ended since, and bring the files up to date."""
        new = [o for o in self.outcomes if o.state != "begun" and (o.part, o.name) not in self._told]
        for outcome in new:
            self._told.add((outcome.part, outcome.name))
            if not self.arguments.json:
                print(line(outcome), flush=True)
        if new:
            self._write()

    def _write(self) -> None:
        if self.out is None:
            return
        outcomes = self.outcomes
        document = summary(outcomes) | {"outcomes": [asdict(outcome) for outcome in outcomes]}
        failed = "\n\n".join(f"{o.part}: {o.name}\n{o.message}\n{o.figures}" for o in failures(outcomes))
        for name, content in (
            ("check.json", json.dumps(document, indent=1, default=str)),
            ("check.txt", text(outcomes)),
            ("failures.txt", failed),
        ):
            (self.out / name).write_text(content + "\n", encoding="utf-8")

    def _close(self) -> int:
        outcomes = self.outcomes
        self._write()
        if self.arguments.json:
            document = summary(outcomes) | {"outcomes": [asdict(outcome) for outcome in outcomes]}
        else:
            print("\n" + text(outcomes) + "\n")
            document = summary(outcomes)
        document["seconds"] = round(time.monotonic() - self.begun, 1)
        print(json.dumps(document, default=str))
        return 1 if failures(outcomes) or not outcomes else 0


def _run_child(arguments: argparse.Namespace) -> None:
    """A part, or a share of it, in this process."""
    from gpu_checks.setting import Setting

    _end_with_parent()
    use_built(arguments.native)
    setting = Setting(arguments.simulate, not arguments.twins)
    match arguments.child:
        case "bandwidth":
            from gpu_checks.bandwidth import cases
        case "ops":
            from gpu_checks.all_operations import cases
        case "parity":
            from gpu_checks.parity import cases
        case "speed":
            from gpu_checks.speed import cases as speed_cases

            def cases(setting: Setting):
                return speed_cases(setting, arguments.profile)

    index, count = map(int, arguments.share.split("/"))
    done = [outcome.name for outcome in read_ledger(arguments.ledger) if outcome.state != "begun"]
    chosen = share_of(cases(setting), index, count)
    run_cases(chosen, Ledger(arguments.ledger), arguments.until, done, setting.synchronise)


def _end_with_parent() -> None:
    """However that ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="all must be over by then")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--json", action="store_true", help="one JSON document, with every case, and nothing else")
    parser.add_argument("--simulate", action="store_true", help="on the CPU, with tiny shapes")
    parser.add_argument("--twins", action="store_true", help="plain torch in the place of the kernels")
    hidden = parser.add_argument_group("of its own processes")
    hidden.add_argument("--child", choices=PARTS, help=argparse.SUPPRESS)
    hidden.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    hidden.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    for name in ("--ledger", "--profile", "--native"):
        hidden.add_argument(name, type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
