"""Wall time of one answer of the bundled nano, the whole process, warm: `one_shot.py OUT.json`."""

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

RUNS = 7
COMMAND = [
    sys.executable,
    "-m",
    "whitedwarf",
    "run",
    "--nothink",
    "--temp",
    "0",
    "-p",
    "What is the capital of France?",
]


def main(out: Path) -> None:
    """One run to warm up, then RUNS that count."""
    seconds = [_run() for _ in range(RUNS + 1)][1:]
    out.write_text(json.dumps({"median_s": median(seconds), "seconds": seconds}) + "\n")
    print(f"one answer of nano, whole process: {median(seconds):.2f} s")


def _run() -> float:
    start = time.perf_counter()
    subprocess.run(COMMAND, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(Path(sys.argv[1]))
