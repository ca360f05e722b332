"""A stage as a dask actor: where a coordinator has one made on a member, and what it asks of it beside the stream.

dask decides nothing here: the coordinator names the member. The actor lives as long as the coordinator's client holds
it, so a stage never outlives its coordinator by more than dask takes to notice.
"""

from typing import Any

from distributed import get_worker

from whitedwarf.cluster.stage import Stage
from whitedwarf.cluster.wish import StageWish
from whitedwarf.cluster.work import Done, Work
from whitedwarf.errors import ClusterError


class StageActor:
    """Made on a member by `Client.submit`. All its work is done in the one thread that owns the member's model."""

    def __init__(self, wish: StageWish) -> None:
        self.wish = wish
        self.num_sessions = 0
        self.stage: Stage | None = get_worker().member.new_stage(self)

    def work(self, work: Work) -> Done:
        """As Stage.work."""
        stage = self._here()
        try:
            return stage.work(work)
        finally:
            if work.orders:
                self.num_sessions = stage.facts().num_sessions

    def call(self, method: str, args: tuple[Any, ...]) -> Any:
        """What the stage's method returns; its errors come through."""
        return getattr(self._here(), method)(*args)

    def drop(self) -> None:
        """Forget all sessions."""
        self.stage, self.num_sessions = None, 0

    def _here(self) -> Stage:
        if self.stage is None:
            raise ClusterError("this stage is over: its coordinator was taken for lost")
        return self.stage
