"""A session: one live sequence that requests continue, one after another.

It promises that its state is exactly its `ids` run from zero: after a cancel they are a valid prefix of the request,
after a failure there are none and the next request rebuilds. It does not know other sessions. That of a one-off request
begins where `Prefixes` knows to begin, and leaves its state there; one of `Engine.new_session` has only itself, and
what an earlier one was when its snapshot was taken.
"""

from array import array
from dataclasses import dataclass

import numpy as np

from whitedwarf.engine.checkpoints import NUM_SEEN_NEXT
from whitedwarf.engine.prefix import Prefixes, SaveReason
from whitedwarf.engine.prefix_tree import Checkpoint
from whitedwarf.engine.request import MissReason, Reuse
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids, Logits, Model, Snapshot, State


@dataclass(frozen=True, slots=True)
class Reused:
    """What `sync` found: `num_tokens` are in the state, `num_common` were seen before, then came `seen_next`."""

    num_tokens: int = 0
    num_common: int = 0
    reuse: Reuse = Reuse.NONE
    miss_reason: MissReason | None = None
    seen_next: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """What a session was between two requests: `ids` (n,) were read, which gave `state`.

    Without a state nothing of it is reused. `logits` (vocab,), where known, come after the last of the ids.
    """

    ids: Ids
    state: Snapshot | None = None
    logits: Logits | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state.position != len(self.ids):
            raise UsageError(f"expected a state of {len(self.ids)} tokens, one for each id; got {self.state.position}")


class Session:
    """Made by `Engine.new_session`. Others may look; only the engine's thread changes it.

    With `prefixes` it is made for a single request.
    """

    def __init__(
        self, model: Model, lane: int, prefixes: Prefixes | None = None, saved: SessionSnapshot | None = None
    ) -> None:
        self.lane = lane  # the scheduler runs one request per lane at a time
        self._model = model
        self._prefixes = prefixes
        self._source: Checkpoint | None = None
        self._state: State | None = None
        self._ids = array("i")
        self._logits: Logits | None = None  # after the last of the ids, where the last pass gave them
        self._frozen: Snapshot | None = None  # what the ids gave; the next request makes a state of it
        if saved is not None and saved.state is not None:
            self._ids = array("i", saved.ids.astype(np.int32).tobytes())
            self._frozen, self._logits = saved.state, saved.logits

    @property
    def ids(self) -> list[int]:
        """The tokens the state has consumed; seen from another thread, those of the last batch that ended."""
        return self._ids.tolist()

    @property
    def position(self) -> int:
        return len(self._ids)

    @property
    def state(self) -> State:
        assert self._state is not None, "sync comes first"
        return self._state

    def belongs_to(self, model: Model) -> bool:
        return self._model is model

    @property
    def remembers(self) -> bool:
        """Checkpoints of this session help others."""
        return self._prefixes is not None and self._prefixes.is_on

    @property
    def shares_checkpoints(self) -> bool:
        """What it remembers is in memory at once, for whoever begins alike."""
        return self._prefixes is not None and self._prefixes.has_memory

    @property
    def wants_logits(self) -> bool:
        """Checkpoints of this session are worth more with the logits after them."""
        return self._prefixes is not None and self._prefixes.wants_logits

    def snapshot(self) -> SessionSnapshot:
        """What it is now; only while none of its requests waits or runs (`Engine.snapshot` sees to that)."""
        ids = self._prompt_ids()
        if self._state is None:
            return SessionSnapshot(ids, self._frozen, self._logits)
        logits = None if self._logits is None else self._logits.copy()
        return SessionSnapshot(ids, self._state.snapshot(), logits)

    def sync(self, prompt: Ids) -> Reused:
        """Make the live tokens a proper prefix of `prompt`, as long as can be had cheaply.

        Proper, because the last token's logits are wanted. What is live beyond the common prefix is rolled back when
        the state has room for that; otherwise everything is rebuilt from zero.
        """
        if self._prefixes is not None:
            return self._take(self._prefixes, prompt)
        self._thaw()
        common = self._common_length(prompt)
        seen_next = tuple(self._ids[common : common + NUM_SEEN_NEXT])
        keep = min(common, len(prompt) - 1)
        surplus = self.position - keep
        if self._state is None or keep == 0 or surplus > self._state.rollback_room:
            reason = self._miss_reason(keep)
            self.drop()
            self._state = self._model.new_state()
            return Reused(0, common, Reuse.NONE, reason, seen_next)
        if surplus:
            self._state.rollback(surplus)
            del self._ids[keep:]
        return Reused(keep, common, Reuse.LIVE, None, seen_next)

    def advance(self, ids: Ids, logits: Logits) -> None:
        """The model has run `ids` on the state; `logits` (0 or more rows, vocab): the last is that of the last id."""
        self._ids.extend(ids.tolist())
        self._logits = logits[-1] if len(logits) else None
        assert self.state.position == self.position, "the model advances a state by exactly the tokens it was given"

    def take_back(self, num_tokens: int, logits: Logits | None) -> None:
        """The newest tokens were drafts, and wrong; `logits` (vocab,), if known, are those of the last that stays."""
        self.state.take_back(num_tokens)
        del self._ids[len(self._ids) - num_tokens :]
        self._logits = logits

    def remember(self, *, is_cold: bool, is_named: bool) -> None:
        """The tokens so far are worth a checkpoint."""
        if self._prefixes is not None:
            reason = SaveReason.COLD if is_cold else SaveReason.CONTINUED
            self._prefixes.remember(self._prompt_ids(), self.state, reason, is_named=is_named, logits=self._logits)

    def leave(self) -> None:
        """The request has ended; a session that outlives it keeps its state for the next one."""
        if self._prefixes is not None and self._state is not None:
            self._prefixes.give_back(self._prompt_ids(), self._state, self._source, self._logits)
            self._source = None
            self.drop()

    def drop(self) -> None:
        """Forget everything: the state can no longer be trusted, or nobody wants it."""
        if self._prefixes is not None:
            self._prefixes.release(self._source)
            self._source = None
        self._state = self._logits = self._frozen = None
        self._ids = array("i")

    def _thaw(self) -> None:
        """Here, because states are made on the engine's thread alone."""
        if self._frozen is not None:
            self._state = self._model.new_state()
            self._state.restore(self._frozen)
            self._frozen = None

    def _take(self, prefixes: Prefixes, prompt: Ids) -> Reused:
        taken = prefixes.take(prompt)
        self._state, self._source = taken.state, taken.source
        self._ids = array("i", prompt[: taken.num_tokens].tobytes())
        return Reused(taken.num_tokens, taken.num_common, taken.reuse, taken.miss_reason, taken.seen_next)

    def _miss_reason(self, num_common: int) -> MissReason:
        if self._state is None:
            return MissReason.EMPTY
        return MissReason.NO_CHECKPOINT if num_common else MissReason.UNKNOWN_PREFIX

    def _prompt_ids(self) -> Ids:
        return np.array(self._ids, np.int32)

    def _common_length(self, prompt: Ids) -> int:
        shorter = min(self.position, len(prompt))
        different = np.flatnonzero(np.array(self._ids[:shorter], np.int32) != prompt[:shorter])
        return int(different[0]) if different.size else shorter
