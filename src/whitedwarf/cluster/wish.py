"""What a coordinator wants of a member: which layers of which model, and how they are to compute."""

from dataclasses import dataclass
from typing import Any

from whitedwarf import __version__
from whitedwarf.cluster.facts import MemberFacts, layers_text


@dataclass(frozen=True, slots=True)
class StageWish:
    """Of one stage of one route; crosses to the member as it is."""

    route: str
    layers: range
    fingerprint: str
    num_layers: int
    kv_cache: str
    quality: bool
    version: str = __version__

    def refusal(self, facts: MemberFacts) -> str:
        """Why this member cannot do it, to be shown to the coordinator's user; "" if it can."""
        if self.version != facts.version:
            return (
                f"{facts.name} is whitedwarf {facts.version}, the coordinator {self.version}: install the same on both"
            )
        if self.fingerprint != facts.fingerprint:
            return (
                f"{facts.name} has another model, {facts.model} ({facts.fingerprint}), not the coordinator's "
                f"({self.fingerprint}): both need files of the same model"
            )
        if self.layers.start < facts.present.start or self.layers.stop > facts.present.stop:
            has, wanted = (layers_text(one, facts.num_layers) for one in (facts.present, self.layers))
            return f"{facts.name}'s file has layers {has}, wanted are {wanted}"
        if facts.asked is not None and self.layers != facts.asked:
            asked, wanted = (layers_text(one, facts.num_layers) for one in (facts.asked, self.layers))
            return f"{facts.name} was started with --layers {asked}, wanted are {wanted}"
        return ""

    @property
    def part(self) -> tuple[Any, ...]:
        """Wishes that are alike in this can be granted with one loaded part."""
        return (self.layers, self.kv_cache, self.quality)
