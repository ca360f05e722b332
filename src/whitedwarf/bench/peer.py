"""The same file through llama.cpp's own llama-bench, in the same run, when the user has one."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import WhitedwarfError


@dataclass(frozen=True, slots=True)
class PeerResult:
    """One llama-bench test: prefill of `tokens` or decode of `tokens`, at a depth."""

    name: str  # pp512, tg64, ...
    depth: int
    tokens_per_s: float
    deviation: float


@dataclass(frozen=True, slots=True)
class PeerRun:
    """What to ask of llama-bench."""

    binary: Path
    model: Path
    prefill_tokens: int
    decode_tokens: int
    threads: int
    repeats: int = 5

    def command(self) -> list[str]:
        counts = ["-p", str(self.prefill_tokens), "-n", str(self.decode_tokens), "-r", str(self.repeats)]
        return [str(self.binary), "-m", str(self.model), "-t", str(self.threads), *counts, "-o", "json"]


def run_peer(run: PeerRun) -> list[PeerResult]:
    """Run llama-bench to its end; WhitedwarfError with its last words when it fails."""
    try:
        done = subprocess.run(run.command(), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        words = (getattr(error, "stderr", None) or "").strip() or str(error)
        raise WhitedwarfError(f"{run.binary} failed: {words.splitlines()[-1]}") from error
    try:
        return [_result(test) for test in json.loads(done.stdout)]
    except (ValueError, TypeError, KeyError) as error:
        raise WhitedwarfError(f"{run.binary} did not answer like llama-bench -o json ({error})") from error


def _result(test: dict[str, object]) -> PeerResult:
    prompt, generated = int(str(test["n_prompt"])), int(str(test["n_gen"]))
    name = f"pp{prompt}" if prompt else f"tg{generated}"
    return PeerResult(name, int(str(test.get("n_depth", 0))), float(str(test["avg_ts"])), float(str(test["stddev_ts"])))
