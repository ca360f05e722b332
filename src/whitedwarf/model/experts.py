"""Mixture of experts: routed by token table in the first layers, by biased scores after; one shared expert (2.6)."""

from dataclasses import dataclass

from whitedwarf.model.batch import Batch
from whitedwarf.model.config import LayerPlan, ModelConfig
from whitedwarf.model.parameters import Parameters
from whitedwarf.ops.base import ExpertWeights, FloatArray, Ops, RouterWeights


@dataclass(frozen=True, slots=True)
class Experts:
    """Weights of one layer's router, routed experts and shared expert."""

    ops: Ops
    router: RouterWeights
    routed: ExpertWeights
    shared: ExpertWeights

    @classmethod
    def load(cls, params: Parameters, config: ModelConfig, plan: LayerPlan) -> "Experts":
        hp = config.hp
        router = RouterWeights(
            gate=params.matrix("ffn_gate_inp"),
            bias=None if plan.is_hash_routed else params.vector("exp_probs_b.bias"),
            table=params.integers("ffn_gate_tid2eid") if plan.is_hash_routed else None,
            num_used=hp.num_experts_used,
            scale=hp.expert_weights_scale,
            normalise=hp.norm_topk,
        )
        routed = _blocks(params, "exps", plan.limit)
        shared = _blocks(params, "shexp", plan.shared_limit)
        return cls(params.ops, router, routed, shared)

    def forward(self, x: FloatArray, batch: Batch, layer: int) -> FloatArray:
        """(n, D) normed input -> (n, D)."""
        experts, weights = self.ops.route(x, self.router, batch.ids)
        batch.watch("experts_picked", layer, experts)
        return self.ops.experts(x, experts, weights, self.routed, self.shared)


def _blocks(params: Parameters, kind: str, limit: float) -> ExpertWeights:
    gate, up, down = (params.matrix(f"ffn_{role}_{kind}") for role in ("gate", "up", "down"))
    return ExpertWeights(gate, up, down, limit)
