"""A backend on a card whose routed experts stay in host memory: around TorchOps, or what is made of it.

Everything but the experts is the wrapped backend's own, which must not record passes as graphs: what the experts need
is known only on the way.
"""

import re
from typing import Any, cast

from whitedwarf.ops.base import ExpertWeights, Ops, Weight
from whitedwarf.ops.torch_experts import HostExperts, HostStack
from whitedwarf.ops.torch_ops import block
from whitedwarf.weights.tensors import Tensor

_ROUTED = re.compile(r"(blk|mtp)\.\d+\.ffn_(gate|up|down)_exps\.weight")


class HostExpertOps:
    """Wraps a backend; `host` has the experts."""

    def __init__(self, inner: Ops, host: HostExperts) -> None:
        self.host_experts = host
        self._inner = inner

    @classmethod
    def around(cls, inner: Ops, host: HostExperts) -> Ops:
        """Itself as a backend."""
        return cast(Ops, cls(inner, host))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all that is not below is the backend's own

    def weight(self, tensor: Tensor) -> Weight:
        """Experts that come after the slots were made (a support file's) lie on the card as a whole."""
        if _ROUTED.fullmatch(tensor.name) and not self.host_experts.is_prepared:
            return self.host_experts.take(tensor)
        return self._inner.weight(tensor)

    def experts(
        self, x: Any, experts: Any, weights: Any, routed: ExpertWeights, shared: ExpertWeights | None = None
    ) -> Any:
        if not isinstance(routed.gate, HostStack):
            return self._inner.experts(x, experts, weights, routed, shared)
        if not self.host_experts.is_prepared:
            self.host_experts.prepare()
        return self.host_experts.experts(x, experts, weights, routed, None if shared is None else block(shared))
