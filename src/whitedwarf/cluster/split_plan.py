"""Which layers the members that are there should have, given those of the coordinator: split.py over what they say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whitedwarf.cluster.facts import Present
from whitedwarf.cluster.split import LayerSizes, Share, SplitMember, split
from whitedwarf.errors import ClusterError


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """`own`: what the coordinator says of itself; its `wanted` are the layers it has, once it has some."""

    sizes: LayerSizes
    own: SplitMember

    def __call__(self, members: Sequence[Present]) -> list[tuple[Present, range]]:
        """The members' layers, in order. ClusterError says which layers lack, or are there twice."""
        by_name = {f"{member.facts.name} at {member.address}": member for member in members}
        return [(by_name[share.name], share.layers) for share in self._shares(by_name)[1:]]

    def own_layers(self, members: Sequence[Present]) -> range:
        """What is left for the coordinator; the same errors, and where there are no members, or nothing for them."""
        if not members:
            raise ClusterError("nobody has joined yet: run `whitedwarf cluster join` on the other machines")
        by_name = {f"{member.facts.name} at {member.address}": member for member in members}
        found = self._shares(by_name)
        if len(found) == 1:
            raise ClusterError(
                "this machine alone is fastest for this model: give --layers 0:A to share it all the same, or leave "
                "--cluster out"
            )
        return found[0].layers

    def with_own(self, layers: range) -> "SplitPlan":
        """The coordinator has these now."""
        return replace(self, own=replace(self.own, wanted=layers))

    def _shares(self, by_name: dict[str, Present]) -> Sequence[Share]:
        others = [
            SplitMember(name, one.facts.memory_bytes, one.facts.read_bytes_per_s, one.facts.present, one.facts.asked)
            for name, one in sorted(by_name.items())
        ]
        return split(self.sizes, [self.own, *others])
