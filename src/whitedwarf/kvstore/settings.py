"""What a store of prefixes must know of the model beside it, and what the user wishes."""

from dataclasses import dataclass, field
from pathlib import Path

from whitedwarf.kvstore.header import Header
from whitedwarf.kvstore.payload import Layout, PayloadKind
from whitedwarf.kvstore.policy import Limits

DEFAULT_BUDGET_BYTES = 4096 << 20


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Marks of 0 match every file."""

    directory: Path
    layout: Layout
    quant_bits: int = 2
    model_id: int = 0
    model_mark: int = 0  # of the weights, 16 bits
    payload_kind: PayloadKind = PayloadKind.PACKED  # of files to be written; both are read
    same_quant_only: bool = False
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    limits: Limits = field(default_factory=Limits)

    def problem(self, header: Header) -> str | None:
        """Why a healthy file is of no use here. It counts towards the budget all the same."""
        context = self.layout.context_length
        if header.context_length > context:
            return f"saved with context {header.context_length}, here it is {context}"
        if self.same_quant_only and header.quant_bits != self.quant_bits:
            return f"saved with {header.quant_bits} bits, the model here has {self.quant_bits}"
        if header.model_id != self.model_id:
            return f"saved with model id {header.model_id}, here it is {self.model_id}"
        if _differ(header.row_kind, self.layout.row_kind):
            return f"saved with rows of kind {header.row_kind}, here it is {self.layout.row_kind}"
        if _differ(header.model_mark, self.model_mark):
            return f"saved with weights marked {header.model_mark:#06x}, here it is {self.model_mark:#06x}"
        return None


def _differ(mark: int, other: int) -> bool:
    """0 says nothing."""
    return mark != other and 0 not in (mark, other)
