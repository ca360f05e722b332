"""One block: attention, then experts, each inside a hyper-connection over the four streams (fact sheet 2.2)."""

from dataclasses import dataclass

from whitedwarf.model.attention import Attention
from whitedwarf.model.batch import Batch
from whitedwarf.model.config import LayerPlan, ModelConfig
from whitedwarf.model.experts import Experts
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.steering import NO_EDITS, Edit, LayerEdits
from whitedwarf.ops.base import FloatArray, HyperMix, HyperSettings, HyperWeights, Ops


@dataclass(frozen=True, slots=True)
class Streams:
    """The four streams between sub-layers (n, S, D), and what the last one adds to them, which is not put back yet:
    that and the way into the next one are one operation."""

    before: FloatArray  # (n, S, D)
    added: FloatArray | None = None  # (n, D)
    mix: HyperMix | None = None

    def into(self, ops: Ops, weights: HyperWeights, settings: HyperSettings) -> tuple[FloatArray, FloatArray, HyperMix]:
        """The streams themselves, the next sub-layer's input, and its mix."""
        if self.added is None or self.mix is None:
            return self.before, *ops.hyper_in(self.before, weights, settings)
        return ops.hyper_out_in(self.before, self.added, self.mix, weights, settings)

    def whole(self, ops: Ops) -> FloatArray:
        """The streams themselves."""
        return (
            self.before if self.added is None or self.mix is None else ops.hyper_out(self.before, self.added, self.mix)
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of the network; `index` is also its place in every sequence's state."""

    ops: Ops
    config: ModelConfig
    index: int
    attention_hyper: HyperWeights
    attention: Attention
    experts_hyper: HyperWeights
    experts: Experts
    edits: LayerEdits = NO_EDITS

    @classmethod
    def load(cls, params: Parameters, config: ModelConfig, plan: LayerPlan) -> "Layer":
        return cls(
            ops=params.ops,
            config=config,
            index=plan.index,
            attention_hyper=params.hyper("attn"),
            attention=Attention.load(params, config, plan.ratio),
            experts_hyper=params.hyper("ffn"),
            experts=Experts.load(params, config, plan),
        )

    def forward(self, entering: Streams, batch: Batch) -> Streams:
        """Attention, then experts; what the experts add is put back by whoever comes next."""
        streams, x, mix = entering.into(self.ops, self.attention_hyper, self.config.hyper)
        batch.watch("streams", self.index, streams)
        added = self._edited("attn_out", self.attention.forward(x, batch, self.index), batch, self.edits.attention)
        streams, x, mix = self.ops.hyper_out_in(streams, added, mix, self.experts_hyper, self.config.hyper)
        added = self._edited("ffn_out", self.experts.forward(x, batch, self.index), batch, self.edits.ffn)
        return Streams(streams, added, mix)

    def _edited(self, name: str, added: FloatArray, batch: Batch, edit: Edit | None) -> FloatArray:
        """What a part adds to the streams (n, D), steered; observers see it as the part gave it."""
        batch.watch(name, self.index, added)
        return added if edit is None else self.ops.steer(added, edit.direction, edit.scale)
