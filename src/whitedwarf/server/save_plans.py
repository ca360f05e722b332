"""Which of the states that the engine offers are worth a file, and under which reason (product.md B.18).

Knows prompts that were looked up, no files. One thread's.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from whitedwarf.engine.prefix import SaveReason
from whitedwarf.kvstore import policy
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.policy import Limits
from whitedwarf.model.base import Ids

MAX_PLANS = 64  # prompts of which a cold save is still expected; those that were found never have one


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Where a prompt is saved should nothing of it be reused: at `boundary`, else whole. Equal to itself alone."""

    prompt: Ids
    boundary: int

    def wants(self, ids: Ids) -> bool:
        return len(ids) in (self.boundary, len(self.prompt)) and np.array_equal(self.prompt[: len(ids)], ids)


class SavePlans:
    """`user` and `assistant`: the tokens that begin their messages."""

    def __init__(self, limits: Limits, user: int, assistant: int) -> None:
        self._limits, self._user, self._assistant = limits, user, assistant
        self._plans: deque[_Plan] = deque(maxlen=MAX_PLANS)

    def expect(self, prompt: Ids) -> None:
        """It is about to be read."""
        if not policy.is_saved_cold(len(prompt), self._limits):
            return
        anchor = policy.chat_anchor(prompt.tolist(), self._user, self._assistant, self._limits.min_tokens)
        boundary = policy.cold_boundary(len(prompt), anchor, self._limits)
        if boundary is not None:
            self._plans.append(_Plan(prompt, boundary))

    def reason(self, ids: Ids, offered: SaveReason) -> Reason | None:
        """Under which reason the state after `ids` is written, if it is."""
        if offered in (SaveReason.EVICT, SaveReason.SHUTDOWN):
            return Reason[offered.name] if len(ids) >= max(1, self._limits.min_tokens) else None
        plan = next((plan for plan in self._plans if plan.wants(ids)), None)
        if plan is not None and offered is SaveReason.COLD:
            self._plans.remove(plan)
            return Reason.COLD
        return Reason.CONTINUED if policy.is_continued_point(len(ids), 0, self._limits) else None
