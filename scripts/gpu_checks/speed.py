"""Part `speed`: a Flash made from a seed: prefill, decode at depths and batches, every operation alone, two profiles.

What matters most comes first. Later cases are left out where the time that earlier ones took says that they do not fit.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gpu_checks.case import Case
from gpu_checks.laboratory import Laboratory
from gpu_checks.listening import Call
from gpu_checks.setting import Setting
from whitedwarf.ops.graphs import CudaGraphs

PART = "speed"
WARM_UP_STEPS = 3  # as it is, recorded, replayed
PROFILED_ROWS = 25


def cases(setting: Setting, profile: Path | None = None) -> Iterator[Case]:
    """One after the other in one process; an estimate of what a case needs is made when it is its turn."""
    own = Speed(setting, profile)
    deep, deeper = (200, 300) if setting.is_simulated else (16500, 66000)  # just past a bucket of visible rows
    chunk, prompts = (32, (64, 96, 40)) if setting.is_simulated else (4096, (8192, 2048, 32768))
    some, many = (2, 3) if setting.is_simulated else (8, 32)
    yield Case(PART, "generate", own.generate, needs_s=20, limit_s=120)
    yield own.decode(1, 0)
    yield own.prefill(prompts[0], chunk)
    yield own.decode(many, 0)
    yield own.alone("decode 1", 1, 1, deep)
    yield own.profiled("decode", 1, deep)
    yield own.alone("prefill", 1, chunk // 2, 0)
    if setting.is_simulated:
        return
    yield own.profiled("prefill", chunk // 2, 0)
    yield own.decode(1, deep)
    yield own.alone(f"decode {many}", many, 1, deep)
    yield own.decode(many, deep)
    yield own.decode(1, deeper)
    yield own.decode(some, 0)
    yield own.prefill(prompts[1], chunk)
    yield own.prefill(prompts[0], chunk // 2)
    yield own.prefill(prompts[0], 2 * chunk)
    yield own.prefill(prompts[2], chunk)
    yield own.decode(some, deep)
    yield own.decode(many, deeper)
    yield own.decode(some, deeper)


class Speed:
    """The cases, and how fast the earlier ones were."""

    def __init__(self, setting: Setting, profile: Path | None) -> None:
        self.setting = setting
        self.lab = Laboratory(setting)
        self._profile = profile
        self._token_s = 1 / 3000  # of prefill, until it is known
        self._steps = 3 if setting.is_simulated else 24

    def generate(self) -> dict[str, Any]:
        start = time.perf_counter()
        size = sum(tensor.data.nbytes for tensor in self.lab.tensors.values())
        assert self.lab.model is not None
        self.setting.synchronise()
        return {"seconds": time.perf_counter() - start, "size_bytes": size, "memory_bytes": self.lab.memory_bytes()}

    def decode(self, count: int, depth: int) -> Case:
        return Case(PART, f"decode batch {count} depth {depth}", partial(self._decode, count, depth), 12, 90)

    def prefill(self, length: int, chunk: int) -> Case:
        needs_s = 5 + 2.3 * length * self._token_s
        return Case(PART, f"prefill {length} by {chunk}", partial(self._prefill, length, chunk), needs_s, 120)

    def alone(self, name: str, count: int, rows: int, depth: int) -> Case:
        """Each operation of a pass of `count` sequences with `rows` new tokens each."""
        run = partial(self._alone, count, rows, depth)
        return Case(PART, f"operations {name}", run, 15, 90)

    def profiled(self, name: str, rows: int, depth: int) -> Case:
        """One pass of a sequence, kernel by kernel."""
        return Case(PART, f"profile {name}", partial(self._profiled, name, rows, depth), 10, 90)

    def _decode(self, count: int, depth: int) -> dict[str, Any]:
        lab = self.lab
        states = lab.states(count, depth)
        for _ in range(WARM_UP_STEPS):
            lab.step(states)
        recorder = getattr(self.setting.fast, "recorder", None)
        before = recorder.num_replayed if recorder else 0
        times = []
        for _ in range(self._steps):
            start = time.perf_counter()
            lab.step(states)  # ends with the logits on the host
            times.append(time.perf_counter() - start)
        replayed = (recorder.num_replayed if recorder else 0) - before
        kv_bytes, distinct = lab.kv_bytes(states), lab.distinct_experts(states)
        step_s, weight_bytes = median(times), lab.traffic.batch_bytes(distinct)
        return {
            "tokens_per_s": count / step_s,
            "step_s": step_s,
            "fastest_s": min(times),
            "slowest_s": max(times),
            "weight_bytes": weight_bytes,
            "kv_bytes": kv_bytes,
            "bytes_per_s": (weight_bytes + kv_bytes) / step_s,
            "replayed": replayed / len(times),
            "memory_bytes": lab.memory_bytes(),
        }

    def _prefill(self, length: int, chunk: int) -> dict[str, Any]:
        lab = self.lab
        lab.prefill(min(chunk, length), chunk)
        start = time.perf_counter()
        lab.prefill(length, chunk)
        seconds = time.perf_counter() - start
        self._token_s = seconds / length
        return {
            "tokens_per_s": length / seconds,
            "seconds": seconds,
            "operations_per_s": lab.operations_per_token * length / seconds,
            "memory_bytes": lab.memory_bytes(),
        }

    def _alone(self, count: int, rows: int, depth: int) -> dict[str, Any]:
        lab = self.lab
        states = lab.states(count, depth)
        with lab.ops.listen(lab.config.hp, most=100 if rows == 1 else 4) as heard:
            lab.pass_over(states, rows)
        found = [self._operation(label, calls, heard.counts[label]) for label, calls in heard.calls.items()]
        total_s = sum(row.get("total_s", 0.0) for row in found)
        rows_found = sorted(found, key=lambda row: -row.get("total_s", 0.0))
        return {
            "total_s": total_s,
            "errors": [row["error"] for row in found if "error" in row],
            "operations": [row | {"share": row.get("total_s", 0.0) / total_s} for row in rows_found],
        }

    def _operation(self, label: str, calls: list[Call], count: int) -> dict[str, Any]:
        hp, row = self.lab.config.hp, {"operation": label, "calls": count}
        try:
            seconds = self._together_s(calls) / len(calls)
        except (RuntimeError, ValueError) as error:
            return row | {"error": f"{label}: {error}"}
        moved = sum(call.weight_bytes() + call.array_bytes(hp) for call in calls) / len(calls)
        operations = sum(call.operations() for call in calls) / len(calls)
        return row | {
            "call_s": seconds,
            "total_s": seconds * count,
            "bytes_per_s": moved / seconds,
            "operations_per_s": operations / seconds,
        }

    def _together_s(self, calls: list[Call]) -> float:
        """All calls of a kind, one after the other, started as one so that starting them is not what is measured."""
        for call in calls:
            call()
        run = partial(_call_all, calls)
        if self.setting.device.type == "cuda":
            run = CudaGraphs(self.setting.device).record(run)
        return median(self.setting.times_s(run, 2 if self.setting.is_simulated else 7))

    def _profiled(self, name: str, rows: int, depth: int) -> dict[str, Any]:
        from torch.profiler import ProfilerActivity, profile

        lab, is_gpu = self.lab, self.setting.device.type == "cuda"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
        warm, states = lab.states(1, depth), lab.states(1, depth)
        with lab.ops.listen(lab.config.hp, most=0):  # no recordings
            lab.pass_over(warm, rows)
            with profile(activities=activities) as profiled:
                lab.pass_over(states, rows)
                self.setting.synchronise()
        averages, by = profiled.key_averages(), "self_device_time_total" if is_gpu else "self_cpu_time_total"
        if self._profile is not None:
            with self._profile.open("a", encoding="utf-8") as file:
                table = averages.table(sort_by=by, row_limit=PROFILED_ROWS, max_name_column_width=60)
                file.write(f"{name}\n{table}\n\n")
        events = [event for event in averages if not is_gpu or "CUDA" in str(event.device_type)]
        found = sorted(
            (
                {"kernel": str(event.key)[:60], "calls": event.count, "total_s": getattr(event, by) / 1e6}
                for event in events
            ),
            key=lambda row: -row["total_s"],
        )
        return {"kernels": found[:PROFILED_ROWS], "total_s": sum(row["total_s"] for row in found)}


def _call_all(calls: list[Call]) -> None:
    for call in calls:
        call()
