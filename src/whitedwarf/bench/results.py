"""Documents that the instruments wrote, read back as figures: tokens per second with their spread, a peer's, a limit.

benchmarks/results/README.md says which members are read. A document tells its kind by its members; of those that have
no tokens per second of a model (`bench recipe`, `bench supervisor`), and of other files, FileFormatError says so.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from whitedwarf.bench.frontiers import Speeds
from whitedwarf.bench.spread import quartiles
from whitedwarf.errors import FileFormatError, UsageError

Kind = Literal["peers", "points", "batch", "contexts", "serve", "kernels"]
Document = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens per second: the median and the quartiles around it."""

    middle: float
    low: float
    high: float

    def __post_init__(self) -> None:
        values = self.low, self.middle, self.high
        if not all(math.isfinite(value) and value > 0 for value in values) or self.low > self.high:
            raise ValueError(f"a rate of {self.middle} between {self.low} and {self.high} cannot be")

    @classmethod
    def of(cls, values: Sequence[float]) -> "Rate":
        return cls(median(values), *quartiles(values))

    @classmethod
    def of_seconds(cls, tokens: float, middle_s: float, quartiles_s: Sequence[float]) -> "Rate":
        low_s, high_s = quartiles_s
        return cls(tokens / middle_s, tokens / high_s, tokens / low_s)


@dataclass(frozen=True, slots=True)
class Figure:
    """One speed. `limit`: what the machine would allow; decode is bound by memory, prefill by int8 arithmetic."""

    kind: Kind
    machine: str
    model: str
    phase: Literal["prefill", "decode"]
    name: str  # such as "decode 64 at 16384"
    ours: Rate
    theirs: Rate | None = None
    limit: float | None = None
    time: str = ""  # UTC, "" where the document does not tell

    @property
    def ratio(self) -> float | None:
        return self.ours.middle / self.theirs.middle if self.theirs else None

    @property
    def of_limit(self) -> float | None:
        return self.ours.middle / self.limit if self.limit else None


@dataclass(frozen=True, slots=True)
class Result:
    """One file."""

    path: Path
    kind: Kind
    machine: str
    document: Document

    def figures(self) -> list[Figure]:
        """All speeds in it; none in a document of kernels."""
        return self._read(lambda: list(_READERS[self.kind](self)))

    def curve(self) -> list[Speeds]:
        """Speeds over the context length, of a document of contexts; at least two."""
        points = self._read(lambda: [_speeds(sample) for sample in self.document["samples"]])
        if len(points) < 2:
            raise FileFormatError(
                f"{self.path}: expected at least 2 contexts to draw a line through, found {len(points)}"
            )
        return points

    def shares(self) -> dict[str, dict[str, float]]:
        """Of a document of kernels: the share of the limit that binds, by kernel and level."""
        found: dict[str, dict[str, float]] = {}

        def read() -> None:
            for sample in self.document["samples"]:
                name = f"{sample['part']} {sample['name']}, {sample['rows']} rows"
                found.setdefault(name, {})[str(sample["level"])] = float(sample["of_limit"])

        self._read(read)
        return found

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError) as error:
            raise FileFormatError(
                f"{self.path}: this is no whole document of `bench` ({type(error).__name__}: {error}); measure again"
            ) from error


def read_result(path: Path) -> Result:
    """FileFormatError for what is no document of speeds."""
    return _result(path, _loaded(path))


def _loaded(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: expected a JSON document of `bench`, but it is not JSON ({error})") from error


def _result(path: Path, document: Any) -> Result:
    kind = _kind(document)
    if kind is None:
        raise FileFormatError(
            f"{path}: no speeds of a model in it; expected what bench, bench peers, bench points, bench batch, bench "
            "kernels or bench serve wrote with --json"
        )
    return Result(path, kind, _machine(document), document)


def results_in(paths: Sequence[Path], kinds: Sequence[Kind] = ()) -> list[Result]:
    """Files, and all documents of speeds in folders, in the order of their names."""
    found: list[Result] = []
    for path in paths:
        if not path.is_dir():
            found.append(read_result(path))
            continue
        loaded = ((file, _loaded(file)) for file in sorted(path.glob("*.json")))
        found += [_result(file, document) for file, document in loaded if _kind(document) is not None]
    chosen = [result for result in found if not kinds or result.kind in kinds]
    if not chosen:
        what = f"documents of {', '.join(kinds)}" if kinds else "documents of speeds"
        raise UsageError(f"expected {what} in {', '.join(map(str, paths))}, found none")
    return chosen


def newest(figures: Sequence[Figure]) -> list[Figure]:
    """Each figure once, in the order of first appearance: with a peer rather than without, and then the newest."""
    best: dict[tuple[str, str, str], Figure] = {}
    for figure in figures:
        key = figure.machine, figure.model, figure.name
        known = best.get(key)
        if known is None or _rank(figure) > _rank(known):
            best[key] = figure
    return list(best.values())


def _rank(figure: Figure) -> tuple[bool, str]:
    return figure.theirs is not None, figure.time


def _kind(document: object) -> Kind | None:
    if not isinstance(document, dict):
        return None
    samples = document.get("samples")
    sample = samples[0] if isinstance(samples, list) and samples and isinstance(samples[0], dict) else {}
    marks: tuple[tuple[bool, Kind], ...] = (
        ("points" in document and "theirs" in document, "peers"),
        ("tests" in document, "points"),
        ("servers" in document, "serve"),
        ("sequences" in sample, "batch"),
        ("part" in sample, "kernels"),
        ("context_tokens" in sample, "contexts"),
    )
    return next((kind for is_so, kind in marks if is_so), None)


def _machine(document: Document) -> str:
    machine = document.get("machine")
    if not isinstance(machine, dict):
        return ""
    threads = f"{machine['threads']} threads" if "threads" in machine else ""
    return ", ".join(str(part) for part in (machine.get("cpu", ""), threads, machine.get("level", "")) if part)


def _model(document: Document) -> str:
    return str(document["model"]).removesuffix(".gguf")


def _time(document: Document) -> str:
    return str(document["machine"].get("time", ""))


def _name(phase: str, tokens: int, depth: int) -> str:
    return f"{phase} {tokens}" + (f" at {depth}" if depth else "")


def _peers(result: Result) -> Iterator[Figure]:
    document = result.document
    for point in document["points"]:
        phase: Literal["prefill", "decode"] = "prefill" if point["kind"] == "prefill" else "decode"
        sides = [
            Rate(float(side["tokens_per_s"]), *map(float, side["quartiles"])) if side else None
            for side in (point["ours"], point["theirs"])
        ]
        if sides[0] is None:
            continue
        name = _name(phase, point["tokens"], point["depth"])
        limit = point.get("limit_tokens_per_s")
        yield Figure("peers", result.machine, _model(document), phase, name, sides[0], sides[1], limit, _time(document))


def _points(result: Result) -> Iterator[Figure]:
    document = result.document
    for test in document["tests"]:
        phase: Literal["prefill", "decode"] = "prefill" if test["n_prompt"] else "decode"
        name = _name(phase, test["n_prompt"] or test["n_gen"], test["n_depth"])
        rate = Rate.of([float(value) for value in test["samples_ts"]])
        yield Figure("points", result.machine, _model(document), phase, name, rate, time=_time(document))


def _batch(result: Result) -> Iterator[Figure]:
    document = result.document
    for sample in document["samples"]:
        count = sample["sequences"]
        rate = Rate.of_seconds(count, sample["step_median_s"], sample["step_quartiles_s"])
        limit = rate.middle / sample["of_bandwidth_limit"]
        name = f"decode, {count} together"
        yield Figure("batch", result.machine, _model(document), "decode", name, rate, None, limit, _time(document))


def _contexts(result: Result) -> Iterator[Figure]:
    document = result.document
    common = result.machine, _model(document)
    for sample in document["samples"]:
        context, tokens, speed = sample["context_tokens"], sample["prefill_tokens"], sample["prefill_tokens_per_s"]
        spread_s = sample.get("prefill_quartiles_s")
        rate = Rate.of_seconds(tokens, tokens / speed, spread_s) if spread_s else Rate(speed, speed, speed)
        share = sample.get("of_int8_limit")
        limit = speed / share if share else None
        yield Figure("contexts", *common, "prefill", f"prefill to {context}", rate, None, limit, _time(document))
        if sample["decode_median_s"]:
            rate = Rate.of_seconds(1, sample["decode_median_s"], sample["decode_quartiles_s"])
            limit = rate.middle / sample["of_bandwidth_limit"] if sample.get("of_bandwidth_limit") else None
            yield Figure("contexts", *common, "decode", f"decode at {context}", rate, None, limit, _time(document))


def _serve(result: Result) -> Iterator[Figure]:
    """Several streams at once; the first server is ours, a second one the peer."""
    document = result.document
    sides = [
        {stream["clients"]: Rate.of(stream["tokens_per_s"]) for stream in server["streams"]}
        for server in document["servers"]
    ]
    for clients, rate in sides[0].items():
        theirs = sides[1].get(clients) if len(sides) > 1 else None
        name = f"streams, {clients} together"
        yield Figure("serve", result.machine, _model(document), "decode", name, rate, theirs, None, _time(document))


def _speeds(sample: Document) -> Speeds:
    decode_s = sample["decode_median_s"]
    return Speeds(sample["context_tokens"], sample["prefill_tokens_per_s"], 1 / decode_s if decode_s else 0.0)


_READERS: Mapping[Kind, Callable[[Result], Iterator[Figure]]] = {
    "peers": _peers,
    "points": _points,
    "batch": _batch,
    "contexts": _contexts,
    "serve": _serve,
    "kernels": lambda result: iter(()),
}
