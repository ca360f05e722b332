"""The instrument for a supervisor: it runs, and its report says what was measured and whether that is enough."""

import json
from dataclasses import replace

import pytest

from whitedwarf.bench.supervisor_overhead import EventSample, RequestSample, SupervisorSample
from whitedwarf.bench.supervisor_report import SupervisorReport
from whitedwarf.cli.main import main

EVENT = EventSample(300, 40e-6, 58e-6, 65e-6, 5e-6, 6e-6, 30e-6, 2e-6)
SAMPLE = SupervisorSample((RequestSample(100, 0.1e-3, 1.1e-3),), (EVENT,), 1000, 36_000_000, 0.0, 0.2, 0.25)


def report_of(sample: SupervisorSample) -> SupervisorReport:
    return SupervisorReport("cpu", 2, 0.5, sample)


def test_everything_measured_is_told() -> None:
    table = report_of(SAMPLE).table()
    assert "request with    100 bytes: 1.10 ms, directly 0.10 ms: 1.00 ms added" in table
    assert "event of   300 bytes: alone 25 us added to 40 (a bare relay 18), among many 1.0 us added to 5.0" in table
    assert "memory after 1000 requests: 36.0 MB" in table
    assert "cold start: 250 ms, the model by itself 200 ms" in table
    assert json.loads(json.dumps(report_of(SAMPLE).document()))["events"][0]["event_bytes"] == 300
    assert all(report_of(SAMPLE).meets_targets.values())


@pytest.mark.parametrize(
    ("sample", "missed"),
    [
        (replace(SAMPLE, requests=(RequestSample(100, 0.0, 3e-3),)), {"requests"}),
        (replace(SAMPLE, events=(replace(EVENT, supervised_wall_s=40e-6),)), {"events"}),
        (replace(SAMPLE, events=(replace(EVENT, supervised_latency_s=90e-6),)), {"single_events"}),
        (replace(SAMPLE, resident_bytes=41_000_000), {"memory"}),
        (replace(SAMPLE, idle_cpu_share=0.02), {"idle"}),
        (replace(SAMPLE, cold_start_s=0.5), {"start"}),
    ],
)
def test_the_report_says_which_targets_are_missed(sample: SupervisorSample, missed: set[str]) -> None:
    assert {name for name, is_met in report_of(sample).meets_targets.items() if not is_met} == missed


def test_it_measures_a_real_supervisor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "supervisor", "--requests", "10", "--events", "20"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["meets_targets"]["memory"]
    assert {one["event_bytes"] for one in document["events"]} == {60, 300, 4000}
    assert document["num_requests"] == 20
