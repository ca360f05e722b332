"""What `whitedwarf bench recipe` found out, as a table for people and one JSON line for scripts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from whitedwarf.bench.recipe_speed import ParseSample, RequestSample, Times

COLD_LIMIT = 1.0  # of the wheel's time (issue 3)
NEXT_TURN_FACTOR = 10.0
PARSE_LIMIT_S = 20e-6


@dataclass(frozen=True, slots=True)
class RecipeReport:
    """One run. `wheel` is the official library's version, None where it is not installed."""

    cpu: str
    threads: int
    load: float  # of the machine's run queue when it began: what else was going on
    wheel: str | None
    repeats: int
    requests: Sequence[RequestSample]
    parsing: Sequence[ParseSample]

    def table(self) -> str:
        """For people."""
        peer = f"deepseek-recipe {self.wheel}" if self.wheel else "NOT INSTALLED: nothing to compare with"
        lines = [
            f"{self.cpu}, {self.threads} threads, load {self.load:.1f}; official library: {peer}",
            f"medians of {self.repeats} conversations in ms (quartiles); request bytes to token ids: an array of "
            "32-bit integers here, a list in the official library",
            f"{'':>24} {'ours':>8} {'best':>8} {'quartiles':>15} {'official':>9} {'best':>8} {'quartiles':>15}",
        ]
        for sample in self.requests:
            lines.append(_row(sample, "cold", sample.cold, sample.wheel_cold))
            lines.append(_row(sample, "next", sample.next_turn, sample.wheel_next_turn))
        for parse in self.parsing:
            low, high = parse.per_token.quartiles_s
            lines.append(
                f"parsing, {parse.mode}: {parse.per_token.median_s * 1e6:.1f} us a token "
                f"({low * 1e6:.1f}-{high * 1e6:.1f}), {parse.tokens} tokens one by one"
            )
        return "\n".join(lines)

    @property
    def meets_targets(self) -> bool | None:
        """Whether everything is as fast as issue 3 asks; None without the official library."""
        if any(parse.per_token.median_s > PARSE_LIMIT_S for parse in self.parsing):
            return False
        ratios = [_ratios(sample) for sample in self.requests]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) < len(ratios):
            return None
        return all(cold <= COLD_LIMIT and next_turn * NEXT_TURN_FACTOR <= 1 for cold, next_turn in known)

    def json_line(self) -> str:
        """For scripts: one line."""
        document = {
            "machine": {"cpu": self.cpu, "threads": self.threads, "load": self.load},
            "wheel": self.wheel,
            "repeats": self.repeats,
            "requests": [_request(sample) for sample in self.requests],
            "parsing": [{"mode": p.mode, "tokens": p.tokens, "per_token": _times(p.per_token)} for p in self.parsing],
            "meets_targets": self.meets_targets,
        }
        return json.dumps(document)


def _ratios(sample: RequestSample) -> tuple[float, float] | None:
    """Our median over the official one's: cold, and the next turn."""
    if sample.wheel_cold is None or sample.wheel_next_turn is None:
        return None
    cold = sample.cold.median_s / sample.wheel_cold.median_s
    return cold, sample.next_turn.median_s / sample.wheel_next_turn.median_s


def _row(sample: RequestSample, turn: str, ours: Times, wheel: Times | None) -> str:
    start = f"{sample.dialect:>10} {sample.tokens:>7} {turn:>5} {_shown(ours)}"
    if wheel is None:
        return start
    return f"{start}  {_shown(wheel)} {wheel.median_s / ours.median_s:>6.1f} times faster"


def _shown(times: Times) -> str:
    low, high = times.quartiles_s
    return f"{times.median_s * 1e3:>8.2f} {times.best_s * 1e3:>8.2f} {low * 1e3:>7.2f}-{high * 1e3:<7.2f}"


def _request(sample: RequestSample) -> dict[str, object]:
    wheel = None
    if sample.wheel_cold is not None and sample.wheel_next_turn is not None:
        wheel = {"cold": _times(sample.wheel_cold), "next_turn": _times(sample.wheel_next_turn)}
    return {
        "dialect": sample.dialect,
        "tokens": sample.tokens,
        "body_bytes": sample.body_bytes,
        "cold": _times(sample.cold),
        "next_turn": _times(sample.next_turn),
        "wheel": wheel,
        "ids_equal": None if wheel is None else True,  # otherwise there would be no report
    }


def _times(times: Times) -> dict[str, object]:
    return {
        "median_s": times.median_s,
        "best_s": times.best_s,
        "cpu_median_s": median(times.cpu_seconds),
        "quartiles_s": times.quartiles_s,
        "all_s": times.seconds,
    }
