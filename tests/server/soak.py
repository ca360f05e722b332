"""A server process among mixed clients for a while: does it lose, cross or leak anything?

    python tests/server/soak.py SECONDS [--legs script,nano] [--out FILE]        (PYTHONPATH=src:tests)

The clients are in soak_clients.py. The report has memory, file descriptors and threads after a warm-up of a fifth of
the time and at the end, and everything that went wrong; figures are of Linux, from /proc.
"""

import argparse
import json
import random
import re
import tempfile
import threading
import time
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from server.soak_clients import CLIENTS, Target, learn
from whitedwarf.bench.serve_process import ServedProcess, started

WARM_UP = 0.2  # of the time
SETTLE_S = 12.0  # as long as connections without a request may last
WORKERS = 8
MOST_GROWTH_MB = 48.0  # nano's checkpoints (--kv-ram-mb 24) may come after the warm-up
MOST_MB_PER_MINUTE = 0.5
SHORTEST_SLOPE_S = 300.0  # what is shorter shows caches that fill
SPARE_THREADS = 3  # of the event loop's pool; idle ones go after a while
WORDS = (["Well", ",", " said", " the", " hedgehog", " — "] + [f" {number} leaves;" for number in range(12)]) * 2
QUESTIONS = (
    "hi",
    "What is the capital of France?",
    "Count to ten.",
    "Who are you?",
    "A word about rain" + " please" * 60,
)


@dataclass(frozen=True)
class Figures:
    """Of the server's process, at one moment."""

    at_s: float
    rss_mb: float
    fds: int
    threads: int


@dataclass
class Report:
    """How it went. The slope is least squares over the second half of the time after the warm-up."""

    leg: str
    seconds: float
    outcomes: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    quiet_before: Figures | None = None  # after the warm-up, nobody connected
    quiet_after: Figures | None = None
    rss_mb_per_minute: float = 0.0
    rss_mb_series: list[float] = field(default_factory=list)  # a tenth of the time each, means
    most_fds: int = 0
    most_threads: int = 0
    exit_status: int | None = None

    @property
    def complaints(self) -> list[str]:
        """All that a server may not do."""
        before, after = self.quiet_before, self.quiet_after
        assert before is not None
        assert after is not None
        grown = {
            f"memory grew from {before.rss_mb} to {after.rss_mb} MB": after.rss_mb - before.rss_mb > MOST_GROWTH_MB,
            f"memory grows by {self.rss_mb_per_minute} MB a minute": self.rss_mb_per_minute > MOST_MB_PER_MINUTE
            and self.seconds >= SHORTEST_SLOPE_S,
            f"{before.fds} file descriptors became {after.fds}": after.fds > before.fds + 1,
            f"{before.threads} threads became {after.threads}": after.threads > before.threads + SPARE_THREADS,
            f"exit status {self.exit_status}": self.exit_status != 0,
        }
        return [*self.violations, *(what for what, is_so in grown.items() if is_so)]

    def as_json(self) -> str:
        return json.dumps(asdict(self) | {"complaints": self.complaints}, indent=1)


def soak(leg: str, seconds: float, seed: int = 0) -> Report:
    """Run one leg: "script" or "nano"."""
    report = Report(leg, seconds)
    with tempfile.TemporaryDirectory() as folder, started(_flags(leg, Path(folder))) as server:
        base = Target(server.port, 24 if leg == "nano" else 400, random.Random(seed))
        learn(base, QUESTIONS)
        _play(report, base, seconds * WARM_UP)
        _settle(server)
        report.quiet_before = figures(server)
        with _Watch(server) as watch:
            _play(report, base, seconds * (1 - WARM_UP))
        _settle(server)
        report.quiet_after = figures(server)
        watch.tell(report)
        _check_metrics(report, server.port)
        report.exit_status = server.stop()
    return report


def _flags(leg: str, folder: Path) -> list[str]:
    if leg == "nano":
        return ["--ctx", "2048", "--kv-ram-mb", "24", "--parallel", "6"]
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"pieces": WORDS, "prefill_s": 0.03, "delay_ms": 2}))
    return ["--script", str(script), "--parallel", "6"]


def _play(report: Report, base: Target, seconds: float) -> None:
    end_s, lock = time.monotonic() + seconds, threading.Lock()

    def work(seed: int) -> None:
        target = Target(base.port, base.max_tokens, random.Random(seed), base.alone)
        while time.monotonic() < end_s:
            (client,) = target.dice.choices(list(CLIENTS), list(CLIENTS.values()))
            try:
                word = client(target)
            except Exception:
                with lock:
                    report.violations.append(f"{client.__name__}: {traceback.format_exc()[-1000:]}")
                word = "violation"
            with lock:
                ending = f"{client.__name__}: {word}"
                report.outcomes[ending] = report.outcomes.get(ending, 0) + 1

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, [base.dice.getrandbits(64) for _ in range(WORKERS)]))


def _settle(server: ServedProcess) -> None:
    """Wait until the connections of those that left are gone."""
    end_s, fds = time.monotonic() + SETTLE_S, list[int]()
    while time.monotonic() < end_s and (len(fds) < 10 or len(set(fds[-10:])) > 1):
        fds.append(figures(server).fds)
        time.sleep(0.1)


def figures(server: ServedProcess) -> Figures:
    folder = Path(f"/proc/{server.process.pid}")
    status = (folder / "status").read_text()
    rss_kb, threads = (int(re.findall(rf"^{name}:\s+(\d+)", status, re.M)[0]) for name in ("VmRSS", "Threads"))
    return Figures(time.monotonic(), rss_kb / 1024, len(list((folder / "fd").iterdir())), threads)


class _Watch:
    """Looks at the process now and then."""

    def __init__(self, server: ServedProcess) -> None:
        self._server = server
        self._seen: list[Figures] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.5):
            self._seen.append(figures(self._server))

    def tell(self, report: Report) -> None:
        seen = self._seen
        late = seen[len(seen) // 2 :]
        report.rss_mb_per_minute = 60 * slope([f.at_s for f in late], [f.rss_mb for f in late])
        tenth = max(1, len(seen) // 10)
        parts = [seen[start : start + tenth] for start in range(0, len(seen), tenth)]
        report.rss_mb_series = [round(sum(f.rss_mb for f in part) / len(part), 2) for part in parts]
        report.most_fds = max(f.fds for f in seen)
        report.most_threads = max(f.threads for f in seen)


def slope(xs: list[float], ys: list[float]) -> float:
    """Least squares."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0


def _check_metrics(report: Report, port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    values = {name: float(value) for name, value in re.findall(r"^(whitedwarf_\S+) (\S+)$", text, re.M)}
    if values["whitedwarf_requests_active"]:
        report.violations.append(f"{values['whitedwarf_requests_active']} requests are active, and nobody is there")
    ended = sum(
        value for name, value in values.items() if re.match(r'whitedwarf_requests_total.*end="(done|can|fail)', name)
    )
    timed = sum(value for name, value in values.items() if name.startswith("whitedwarf_request_seconds_count"))
    if ended != timed:
        report.violations.append(f"{ended} requests ended and {timed} were timed")
    if failed := [name for name, value in values.items() if 'end="failed"' in name and value]:
        report.violations.append(f"requests failed: {failed}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--legs", default="script,nano", help="each gets its share of the time")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    legs = options.legs.split(",")
    reports = [soak(leg, options.seconds / len(legs), options.seed) for leg in legs]
    text = "[" + ",\n".join(report.as_json() for report in reports) + "]\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
