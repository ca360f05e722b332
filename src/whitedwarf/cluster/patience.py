"""How long the machines of a cluster wait for each other."""

from dataclasses import dataclass

PULSES_IN_SILENCE = 5
SHORTEST_TCP_S = 12  # dask asks for more than its ten probes


@dataclass(frozen=True, slots=True)
class Patience:
    """All in seconds. After `silence_s` without a byte a machine counts as lost; work may take `work_s`, as long as
    its machine gives signs of life; `whole_s` is how long a request waits until there are members for all layers."""

    silence_s: float = 10.0
    work_s: float = 900.0
    whole_s: float = 30.0

    @property
    def pulse_s(self) -> float:
        """How often a sign of life is sent where there is nothing else to say."""
        return self.silence_s / PULSES_IN_SILENCE

    @property
    def tcp_s(self) -> int:
        """How long the system may try to deliver what was sent."""
        return max(SHORTEST_TCP_S, round(self.silence_s))
