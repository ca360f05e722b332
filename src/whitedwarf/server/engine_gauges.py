"""Numbers of the engine and of the disk as Prometheus reads them: taken when it asks, kept nowhere.

Promises: names are ours and fixed; a number that cannot be had is left out. Waits for nobody.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from whitedwarf.engine.prefix import PrefixStats
from whitedwarf.server.facts import Facts, Numbers

_HELD = ("files", "bytes", "budget_bytes")  # now; the rest counts since the start
_EXPERTS = {
    "slots": "Places for experts: on cards, or in memory where they are streamed from a disk.",
    "held": "Experts that lie there.",
    "hits": "Experts that were needed and lay there, once a layer and pass.",
    "misses": "Experts that were needed and did not.",
    "loads": "Experts that were brought there.",
    "loaded_bytes": "Bytes that were brought for that.",
    "evictions": "Experts that made room.",
}
_EXPERTS_PERHAPS = {  # some have them, others not
    "cpu_rows": "Rows times experts that the CPU computed instead of bringing them to a card.",
    "read_bytes": "Bytes that were read from the model's file.",
    "foreseen": "Experts that were read before they were asked for.",
    "foreseen_used": "Of these, needed by the next pick of their layer.",
    "foreseen_unused": "Of these, not needed by it.",
    "waited_seconds": "Time in which the engine waited for experts to be read.",
}
_EXPERTS_NOW = ("slots", "held")


class EngineGauges(Collector):
    """A collector for one server's registry."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def describe(self) -> Iterator[Metric]:
        """Nothing: names are not looked up by asking the engine when this is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """What there is now."""
        facts = self._facts
        yield GaugeMetricFamily("whitedwarf_slots", "Requests answered at a time.", facts.total_slots)
        yield GaugeMetricFamily("whitedwarf_power_percent", "Share of the time that may be used.", facts.power_percent)
        if facts.prefix_stats is not None:
            yield from _prefix_metrics(facts.prefix_stats())
        if facts.disk_stats is not None:
            yield from _disk_metrics(facts.disk_stats())
        if facts.expert_stats is not None:
            yield from _expert_metrics(facts.expert_stats())


def _prefix_metrics(stats: PrefixStats) -> Iterator[Metric]:
    name = "whitedwarf_prefix_"
    yield GaugeMetricFamily(f"{name}budget_bytes", "Memory for beginnings of prompts.", stats.budget_bytes)
    yield GaugeMetricFamily(f"{name}held_bytes", "Memory that they take.", stats.held_bytes)
    yield GaugeMetricFamily(f"{name}checkpoints", "Checkpoints in memory.", stats.num_checkpoints)
    yield GaugeMetricFamily(f"{name}live", "States kept to be gone on with.", stats.num_live)
    yield CounterMetricFamily(f"{name}evicted", "Checkpoints that had to leave memory.", stats.num_evicted)
    yield CounterMetricFamily(f"{name}reused_tokens", "Tokens of prompts that were not computed.", stats.reused_tokens)
    yield _by_label(f"{name}requests", "Prompts by where their beginning came from.", "kind", stats.requests)
    yield _by_label(f"{name}misses", "Prompts by why they were computed (again).", "reason", stats.misses)


def _disk_metrics(numbers: Numbers) -> Iterator[Metric]:
    """The names are those of kvstore/stats.py."""
    for name, value in numbers.items():
        title, text = f"whitedwarf_disk_{name}", f"The folder of prompts: {name.replace('_', ' ')}."
        if isinstance(value, Mapping):
            yield _by_label(title, text, "reason", value)
        elif name in _HELD:
            yield GaugeMetricFamily(title, text, value)
        else:
            yield CounterMetricFamily(title, text, value)


def _expert_metrics(numbers: Mapping[str, float]) -> Iterator[Metric]:
    for name, text in _EXPERTS.items():
        family = GaugeMetricFamily if name in _EXPERTS_NOW else CounterMetricFamily
        yield family(f"whitedwarf_experts_{name}", text, numbers.get(name, 0))
    for name, text in _EXPERTS_PERHAPS.items():
        if name in numbers:
            yield CounterMetricFamily(f"whitedwarf_experts_{name}", text, numbers[name])


def _by_label(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, count in counts.items():
        family.add_metric((str(value),), count)
    return family
