"""The acceptance lines of the CPU backend, from the JSON files of run_cpu.sh: `summary.py FOLDER`.

A pair of layers (one CSA and one HCA) costs what f6 costs beyond f4; all 43 layers of Flash cost f4 and 19.5 pairs.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

PAIRS = 19.5  # beyond f4
ALL_PAIRS = 20.5
Doc = dict[str, Any]


def main(folder: Path) -> None:
    """Print a line for each figure that is there."""
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    machine = next((doc["machine"] for doc in found.values() if "machine" in doc), {})
    print(f"{machine.get('cpu', 'unknown')}, {machine.get('threads', '?')} threads")
    print(f"{'':<44} {'ours':>10} {'peer':>10} {'ratio':>6}  wanted")
    for part in (_decode, _prefill, _depths, _batch, _nano):
        for line in part(found):
            print(line)


def _line(what: str, ours: float | None, peer: float | None = None, wanted: str = "", unit: str = "") -> str:
    cells = [f"{value:>10.2f}" if value is not None else f"{'-':>10}" for value in (ours, peer)]
    ratio = f"{ours / peer:>6.2f}" if ours and peer else f"{'':>6}"
    return f"{what + (f' ({unit})' if unit else ''):<44} {cells[0]} {cells[1]} {ratio}  {wanted}".rstrip()


def _point(doc: Doc | None, name: str) -> Doc | None:
    """A point of a peers file, or of a points file written in the same form."""
    if doc is None:
        return None
    if "points" in doc:
        return next((point for point in doc["points"] if point["name"] == name), None)
    for test in doc.get("tests", ()):
        kind = f"pp{test['n_prompt']}" if test["n_prompt"] else f"tg{test['n_gen']}"
        depth = f"@{test['n_depth']}" if test["n_depth"] else ""
        if kind + depth == name:
            samples = sorted(test["samples_ts"])
            return {"ours": {"tokens_per_s": samples[len(samples) // 2]}, "theirs": None}
    return None


def _rate(point: Doc | None, side: str) -> float | None:
    return point[side]["tokens_per_s"] if point and point[side] else None


def _share(point: Doc | None, side: str) -> float | None:
    share = point[side].get("of_limit") if point and point[side] else None
    return None if share is None else 100 * share


def _decode(found: dict[str, Doc]) -> Iterator[str]:
    wanted = {"f4": "1.25", "q3": "1.1", "m3": "1.1", "f6": ""}
    for name, ratio in wanted.items():
        point = _point(found.get(name), "tg64")
        if point:
            yield _line(f"{name} decode", _rate(point, "ours"), _rate(point, "theirs"), ratio and f">= {ratio}", "t/s")
            limit = ">= 85" if name in ("q3", "m3") else ""
            yield _line(f"{name} decode, of the bandwidth", _share(point, "ours"), _share(point, "theirs"), limit, "%")
    yield from _pair(found)
    yield from _estimate(found)
    if (deep := _point(found.get("f4_deep"), "tg64@16384")) is not None:
        yield _line("f4 decode at 16k", _rate(deep, "ours"), _rate(deep, "theirs"), ">= 1.25", "t/s")


def _estimate(found: dict[str, Doc]) -> Iterator[str]:
    for sample in found.get("f4_layers", {}).get("samples", ()):
        full = sample["full_model"]
        if full is not None:
            yield _line("all 43 layers, from times of layers, decode", 1e3 * full["decode_s"], None, "", "ms")
            yield _line("  of the bandwidth", 100 * full["of_bandwidth_limit"], None, ">= 65", "%")
            yield _line("all 43 layers, from times of layers, prefill", 1 / full["prefill_s"], None, "", "t/s")


def _pair(found: dict[str, Doc]) -> Iterator[str]:
    f4, f6 = found.get("f4"), found.get("f6")
    short, long = _point(f4, "tg64"), _point(f6, "tg64")
    if not (f4 and f6 and short and long and "bytes_per_token" in f4 and "bytes_per_token" in f6):
        return
    bandwidth = max(doc["machine"]["read_bytes_per_s"] for doc in (f4, f6))
    pair_bytes = f6["bytes_per_token"] - f4["bytes_per_token"]
    limit_ms = 1e3 * (f4["bytes_per_token"] + PAIRS * pair_bytes) / bandwidth
    pairs, fulls = [], []
    for side in ("ours", "theirs"):
        rates = _rate(short, side), _rate(long, side)
        if not (rates[0] and rates[1]):
            return
        base_ms, pair_ms = 1e3 / rates[0], 1e3 / rates[1] - 1e3 / rates[0]
        pairs.append(pair_ms)
        fulls.append(base_ms + PAIRS * pair_ms)
    yield f"{'CSA+HCA pair, f6 - f4 (ms)':<44} {pairs[0]:>10.2f} {pairs[1]:>10.2f} {pairs[1] / pairs[0]:>6.2f}  >= 1.7"
    yield f"{'  limit of the pair (ms)':<44} {1e3 * pair_bytes / bandwidth:>10.2f}"
    yield f"{'all 43 layers, estimated (ms)':<44} {fulls[0]:>10.1f} {fulls[1]:>10.1f} {fulls[1] / fulls[0]:>6.2f}"
    yield _line("  of the bandwidth", 100 * limit_ms / fulls[0], 100 * limit_ms / fulls[1], ">= 65", "%")


def _prefill(found: dict[str, Doc]) -> Iterator[str]:
    for name, file, point_name, ratio in (
        ("f4 prefill 512", "f4", "pp512", "3"),
        ("f4 prefill 2048", "f4" if _point(found.get("f4"), "pp2048") else "f4_long", "pp2048", "3"),
        ("q3 prefill 512", "q3", "pp512", "2"),
        ("m3 prefill 512", "m3", "pp512", "2"),
    ):
        point = _point(found.get(file), point_name)
        if point:
            yield _line(name, _rate(point, "ours"), _rate(point, "theirs"), f">= {ratio}", "t/s")
            if (share := _share(point, "ours")) is not None:
                yield _line(
                    "  of int8 arithmetic", share, _share(point, "theirs"), ">= 40" if "f4" in file else "", "%"
                )


def _depths(found: dict[str, Doc]) -> Iterator[str]:
    doc = found.get("f4_depths")
    if doc is None:
        return
    decodes = {test["n_depth"]: median(test["samples_ts"]) for test in doc["tests"] if test["n_gen"]}
    prefills = {test["n_depth"]: median(test["samples_ts"]) for test in doc["tests"] if test["n_prompt"]}
    for depth in sorted(decodes):
        yield _line(f"f4 at depth {depth}, decode", decodes[depth], None, "", "t/s")
        yield _line(f"f4 at depth {depth}, prefill of 512", prefills[depth], None, "", "t/s")
    last = max(decodes)
    if 2048 in decodes and last > 2048:
        share = 100 * decodes[last] / decodes[2048]
        yield _line(f"decode at {last} of that at 2048", share, None, ">= 85 at 64k", "%")
        states = {test["n_depth"]: test["state_bytes"] for test in doc["tests"]}
        grown = (states[last] - states[2048]) / (last - 2048)  # f4 has one pair
        yield _line("state per token, 43 layers", ALL_PAIRS * grown / 1e3, None, "<= 3.7", "KB")
    if 0 in prefills and 16384 in prefills:
        yield _line("prefill at 16k of that at 0", 100 * prefills[16384] / prefills[0], None, ">= 85", "%")
    if (peak := doc.get("peak_beyond_files_bytes")) is not None:
        yield _line(f"peak memory beyond the file, to {last}", peak / 1e9, None, "<= 1.5 at 32k", "GB")


def _batch(found: dict[str, Doc]) -> Iterator[str]:
    for sample in found.get("f4_batch", {}).get("samples", ()):
        wanted = ">= 3 times one" if sample["sequences"] == 8 else ""
        times = f"{sample['times_one']:>6.2f}"
        what = f"f4, {sample['sequences']} together (t/s; of limit %)"
        limit = 100 * sample["of_bandwidth_limit"]
        yield f"{what:<44} {sample['tokens_per_s']:>10.2f} {limit:>10.0f} {times}  {wanted}".rstrip()


def _nano(found: dict[str, Doc]) -> Iterator[str]:
    if (point := _point(found.get("nano"), "tg128")) is not None:
        yield _line("nano decode", _rate(point, "ours"), None, ">= 300", "t/s")
    if "nano_once" in found:
        yield _line("nano, one answer, whole process", found["nano_once"]["median_s"], None, "<= 1.0", "s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
