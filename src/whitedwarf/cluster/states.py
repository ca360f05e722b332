"""The state of one sequence whose layers are on several machines.

Here are its ids, what our own layers remember of it, and a number under which the stages have the rest. The ids are the
truth: whatever was lost of the rest is computed again from them when it is needed next. Nothing here waits for another
machine; what the stages have to be told goes along with the next work.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from whitedwarf.cluster.fullest import HERE_ALONE, Fullest
from whitedwarf.cluster.history import History
from whitedwarf.cluster.line import Line, Remote
from whitedwarf.cluster.work import StageError, StateOrder
from whitedwarf.model.base import Ids, Snapshot
from whitedwarf.model.state import ROLLBACK_TOKENS, StateSnapshot
from whitedwarf.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Home:
    """Of which model a state is: our own layers, the way to the others, and the number of the steering."""

    local: Transformer
    line: Line
    steering: int = 0

    @property
    def fullest(self) -> Fullest:
        """What states take of the machine that keeps most of them, on the route that there is now."""
        return Fullest.of(self.local.config, self.local.held, self.line.stages)

    def is_of(self, other: "Home") -> bool:
        """States of one can be used by the other, whatever contexts they allow."""
        return self.line is other.line and self.steering == other.steering


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSnapshot:
    """A frozen state. Where something of it was lost, it is still the ids that it was taken of."""

    home: Home
    history: History
    rollback_room: int
    local: StateSnapshot | None = None
    remote: Remote | None = None
    fullest: Fullest = HERE_ALONE

    @property
    def position(self) -> int:
        return len(self.history)

    @property
    def is_here(self) -> bool:
        """Nothing of it is known to be lost."""
        return self.local is not None and self.home.line.is_here(self.remote)

    def rebased(self, longer: Snapshot) -> "ClusterSnapshot":
        """See model/base.py; ValueError when `longer` is of another model or shorter."""
        if not isinstance(longer, ClusterSnapshot) or not longer.home.is_of(self.home):
            raise ValueError("expected a longer snapshot of the same model")
        if self.local is None or longer.local is None:
            return self
        if self.remote is not None and longer.remote is not None:
            self._order(StateOrder("rebase", longer.remote.number, self.remote.number))
        return self._with(self.local.rebased(longer.local))

    def packed(self) -> "ClusterSnapshot":
        """See model/base.py."""
        if self.local is None:
            return self
        if self.remote is not None:
            self._order(StateOrder("pack", snapshot=self.remote.number))
        return self._with(self.local.packed())

    @property
    def own_bytes(self) -> int:
        """On the fullest machine."""
        return 0 if self.local is None else self.fullest.own_bytes(self.local.own_bytes, self.position)

    def shared_bytes(self) -> Mapping[int, int]:
        """Likewise, by the buffers here."""
        return {} if self.local is None else self.fullest.shared_bytes(self.local.shared_bytes())

    def _with(self, local: StateSnapshot) -> "ClusterSnapshot":
        return ClusterSnapshot(self.home, self.history, self.rollback_room, local, self.remote, self.fullest)

    def _order(self, order: StateOrder) -> None:
        if self.is_here:
            self.home.line.order(order)


class ClusterState:
    """See the module. A state that is `lost` has only its ids for sure: its home has to begin it again."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.history = History()
        self.local = home.local.new_state()
        self.remote: Remote | None = None
        self.failure: StageError | None = None  # of work that nobody waited for
        self.num_replays = 0  # since work of it last came through
        self._fullest = HERE_ALONE
        self._oldest = 0  # no position before this one can be returned to

    @property
    def position(self) -> int:
        return len(self.history)

    @property
    def is_lost(self) -> bool:
        return not self.home.line.is_here(self.remote)

    @property
    def rollback_room(self) -> int:
        return min(self.position - self._oldest, ROLLBACK_TOKENS)

    @property
    def draft_room(self) -> int:
        return 0  # every draft would travel there and its logits back

    def take_back(self, num_tokens: int) -> None:
        """Nothing: no pass has drafts."""
        if num_tokens:
            raise ValueError(f"can take back no tokens of a pass, asked for {num_tokens}")

    def rollback(self, num_tokens: int) -> None:
        """Forget the newest tokens; ValueError beyond `rollback_room`."""
        if not 0 <= num_tokens <= self.rollback_room:
            raise ValueError(f"can take back at most {self.rollback_room} tokens, asked for {num_tokens}")
        self.history.cut(self.position - num_tokens)
        if not self.is_lost and self.remote is not None:
            self.local.rollback(num_tokens)
            self.home.line.order(StateOrder("rollback", self.remote.number, num_tokens=num_tokens))

    def snapshot(self) -> ClusterSnapshot:
        history, room = self.history.shared(), self.rollback_room
        if self.is_lost or self.remote is None:
            return ClusterSnapshot(self.home, history, room)
        remote = self.home.line.new_remote("snapshot")
        self.home.line.order(StateOrder("snapshot", self.remote.number, remote.number))
        return ClusterSnapshot(self.home, history, room, self.local.snapshot(), remote, self._fullest)

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot was taken of; any earlier content is dropped."""
        if not isinstance(snapshot, ClusterSnapshot) or not snapshot.home.is_of(self.home):
            raise ValueError("the snapshot was taken of another model")
        self.history, self.failure, self.num_replays = snapshot.history.shared(), None, 0
        self._oldest = snapshot.position - snapshot.rollback_room
        self.remote = None
        if snapshot.is_here and snapshot.local is not None and snapshot.remote is not None:
            self.local.restore(snapshot.local)
            self._fullest = snapshot.fullest
            self.remote = self.home.line.new_remote("session")
            self.home.line.order(StateOrder("restore", self.remote.number, snapshot.remote.number))

    def begin_again(self) -> None:
        """Nothing consumed yet, here and on the stages; the ids stay. RouteBroken."""
        self.local = self.home.local.new_state()
        self.failure = None
        self.remote = self.home.line.new_session(self.home.steering)
        self._fullest = self.home.fullest

    def extend(self, ids: Ids) -> None:
        """Count these as consumed."""
        self.history.extend(ids)
        self._oldest = max(self._oldest, self.position - ROLLBACK_TOKENS)

    def rewind(self, position: int) -> None:
        """After a failure: what came after `position` is not consumed, and the rest is to be computed again."""
        self.history.cut(position)
        self._oldest = min(self._oldest, position)
        self.remote = None

    def lose(self, remote: Remote, failure: StageError | None) -> None:
        """Work of the session `remote` did not come through; says nothing of a session begun since."""
        if self.remote is remote:
            self.remote, self.failure = None, failure

    def has_passed(self) -> None:
        """Work came through."""
        self.num_replays = 0

    @property
    def own_bytes(self) -> int:
        """On the fullest machine."""
        return self._fullest.own_bytes(self.local.own_bytes, self.position)

    def shared_bytes(self) -> Mapping[int, int]:
        """Likewise, by the buffers here."""
        return self._fullest.shared_bytes(self.local.shared_bytes())
