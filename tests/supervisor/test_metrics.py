"""The metrics are what Prometheus reads: its own client library's parser says so."""

import math

from prometheus_client.parser import text_string_to_metric_families

from fakes.desk import DOWN_STATUS
from whitedwarf.supervisor.metrics import Metrics
from whitedwarf.supervisor.status import ModelStatus, State


def values(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('whitedwarf_supervisor_')}[{labels}]"] = sample.value
    return found


def test_prometheus_parser_reads_every_line() -> None:
    metrics = Metrics()
    for outcome in ("200", "200", "left"):
        metrics.count('a"\\\nb', outcome)
    metrics.count_replay("one")
    loaded = ModelStatus(
        key='a"\\\nb',
        alias="x",
        kind="managed",
        state=State.LOADED,
        public_port=1,
        in_flight=2,
        idle_s=1.25,
        context_size=4096,
        start_count=3,
        last_start_s=0.5,
    )
    text = metrics.text((loaded, DOWN_STATUS))
    found = values(text)
    assert text.endswith("\n")
    assert found['requests_total[model=a"\\\nb,outcome=200]'] == 2
    assert found['requests_total[model=a"\\\nb,outcome=left]'] == 1
    assert found["replays_total[model=one]"] == 1
    assert found['in_flight[model=a"\\\nb]'] == 2
    assert found['idle_seconds[model=a"\\\nb]'] == 1.25
    assert found['loaded[model=a"\\\nb]'] == 1
    assert found["loaded[model=one]"] == 0
    assert found["resident_memory_bytes[]"] > 1_000_000
    assert not any(math.isnan(value) for value in found.values())


def test_what_does_not_apply_is_left_out() -> None:
    found = values(Metrics().text((DOWN_STATUS,)))
    assert "idle_seconds[model=one]" not in found
    assert found["starts_total[model=one]"] == 0
