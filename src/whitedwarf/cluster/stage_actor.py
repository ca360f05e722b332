"""A stage as a dask actor: where a coordinator has one made on a member, and what it asks of it beside the stream.

dask decides nothing here: the coordinator names the member. The actor lives as long as the coordinator's client holds
it, so a stage never outlives its coordinator by more than dask takes to notice.
"""

from typing import Any

from distributed import get_worker

from whitedwarf.cluster.wish import StageWish
from whitedwarf.errors import WhitedwarfError


class StageActor:
    """Made on a member by `Client.submit`. All methods run in the one thread that owns the member's model."""

    def __init__(self, wish: StageWish) -> None:
        self.wish = wish
        self.stage: Any = get_worker().member.new_stage(self)

    def call(self, method: str, args: tuple[Any, ...]) -> Any:
        """What the stage's method returns; its errors come through."""
        if self.stage is None:
            raise WhitedwarfError("this stage is over: its coordinator was taken for lost")
        return getattr(self.stage, method)(*args)

    def drop(self) -> None:
        """Forget all sessions."""
        self.stage = None
