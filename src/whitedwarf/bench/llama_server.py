"""llama.cpp's llama-server as the other side, over HTTP with token ids; its own clocks tell the speeds.

Decode is told by it from the second token on. Where it does not keep what it has read (it then reads a prompt again
from its start), prefill at a depth cannot be measured and is left out.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from whitedwarf.bench.peers import Progress
from whitedwarf.bench.points import Point, Rates
from whitedwarf.bench.serve_process import peer_started
from whitedwarf.bench.speed import SEED
from whitedwarf.errors import WhitedwarfError

PATIENCE_S = 3600.0
SPARE_TOKENS = 64


@dataclass(slots=True)
class LlamaServer:
    """A running server. `vocab_size` bounds the ids that are sent."""

    url: str
    vocab_size: int
    name: str = "llama-server"
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    _beginnings: dict[int, list[int]] = field(default_factory=dict)

    def prepare(self, asked: Sequence[Point], progress: Progress) -> None:
        """One short answer, so that its weights are there."""
        progress(f"{self.name}: first answer")
        self._complete(self._ids(32), 2)

    def measure(self, asked: Sequence[Point], repeats: int) -> Sequence[Rates]:
        found = []
        for point in asked:
            rates = [rate for _ in range(repeats) if (rate := self._rate(point)) is not None]
            if rates:
                found.append(Rates(point, tuple(rates)))
        return found

    def settings(self, point: Point) -> str:
        return ""

    def _rate(self, point: Point) -> float | None:
        beginning = self._beginnings.setdefault(point.depth, self._ids(point.depth))
        if beginning:
            self._complete(beginning, 1)
        if point.kind == "decode":
            return self._complete(beginning + self._ids(1), point.tokens)["predicted_per_second"]
        timings = self._complete(beginning + self._ids(point.tokens), 1)
        was_kept = timings["prompt_n"] <= point.tokens + SPARE_TOKENS
        return timings["prompt_per_second"] if was_kept else None

    def _ids(self, count: int) -> list[int]:
        found: list[int] = self._rng.integers(0, self.vocab_size, count).tolist()
        return found

    def _complete(self, ids: Sequence[int], tokens: int) -> Mapping[str, float]:
        asked = {"prompt": ids, "n_predict": tokens, "cache_prompt": True, "ignore_eos": True, "temperature": 0.0}
        request = urllib.request.Request(
            f"{self.url}/completion", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                timings = json.load(answer)["timings"]
            return {name: float(timings[name]) for name in ("prompt_n", "prompt_per_second", "predicted_per_second")}
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace").strip()
            raise WhitedwarfError(f"{self.url} refused {len(ids)} tokens: {error.code} {words[:200]}") from error
        except OSError as error:
            raise WhitedwarfError(f"{self.url} does not answer: {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise WhitedwarfError(f"{self.url} did not answer like llama-server's /completion ({error})") from error


@contextmanager
def started_server(
    binary: Path, model: Path, threads: int, asked: Sequence[Point], vocab_size: int
) -> Iterator[LlamaServer]:
    """One of our own, with room for these points."""
    context = max(point.end for point in asked) + SPARE_TOKENS
    with peer_started(binary, model, 1, context, ["-t", str(threads)]) as port:
        yield LlamaServer(f"http://127.0.0.1:{port}", vocab_size, binary.name)
