"""What a server can tell about itself besides its model: fixed facts, and where live numbers are read.

Everything here may be read from any thread and never waits for the engine.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.prefix import PrefixStats

Numbers = Mapping[str, float | Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Facts:
    """`prefix_stats` and `disk_stats` are None where nothing of the kind is kept; `recipe` writes the prompts.

    `placement` says what lies on which card, `expert_stats` how often the experts that were needed lay on a card, or in
    memory where they are streamed from a disk, and `streaming` how many are kept there; None where there is nothing of
    the kind.

    `is_running`: whether there is an engine that answers. `steering` says which direction is taken out, and how much.
    """

    backend: str = "none"
    recipe: str = "v4"
    file_name: str = ""
    total_slots: int = 1
    max_waiting: int = 0
    power_percent: int = 100
    steering: Json = None
    is_running: Callable[[], bool] = lambda: True
    prefix_stats: Callable[[], PrefixStats] | None = None
    disk_stats: Callable[[], Numbers] | None = None
    placement: str | None = None
    streaming: str | None = None
    expert_stats: Callable[[], Mapping[str, float]] | None = None
    started_s: float = field(default_factory=time.monotonic)

    @property
    def uptime_s(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self.started_s

    @property
    def steering_text(self) -> str:
        """For people: every member but the digest."""
        parts = self.steering if isinstance(self.steering, dict) else {}
        return ", ".join(f"{name} {value}" for name, value in parts.items() if name != "digest")

    def prefix_json(self) -> Json:
        """The memory of prompts, as people read it; None where there is none."""
        if self.prefix_stats is None:
            return None
        stats = self.prefix_stats()
        return {
            "budget_bytes": stats.budget_bytes,
            "held_bytes": stats.held_bytes,
            "checkpoints": stats.num_checkpoints,
            "live": stats.num_live,
            "evicted": stats.num_evicted,
            "reused_tokens": stats.reused_tokens,
            "requests": dict[str, Json](stats.requests),
            "misses": dict[str, Json](stats.misses),
        }

    def expert_json(self) -> Json:
        """Experts in host memory; None where there are none."""
        return None if self.expert_stats is None else dict[str, Json](self.expert_stats())

    def disk_json(self) -> Json:
        """The folder of prompts; None where there is none."""
        if self.disk_stats is None:
            return None
        numbers = self.disk_stats().items()
        return {name: dict[str, Json](value) if isinstance(value, Mapping) else value for name, value in numbers}
