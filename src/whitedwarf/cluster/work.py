"""What a coordinator and its stages say to each other, and how its way to them looks from the coordinator's side.

A stage holds consecutive layers and, of every sequence, what these remember of it: a session. Sessions and snapshots
are numbers that the coordinator gives, never twice. Everything here is plain values, so that any transport can carry
it. Knows no transport.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from whitedwarf.cluster.boundary import Bits, Bytes
from whitedwarf.errors import ClusterError as ClusterError
from whitedwarf.model.base import Ids, LogitRows, Logits

OrderKind = Literal["new", "drop", "rollback", "snapshot", "restore", "drop_snapshot", "rebase", "pack"]


class RouteBroken(ClusterError):  # noqa: N818  (what happened, and for good: the route has to be built again)
    """The transport failed. Every piece of work that is under way fails with it, and every later one."""


class HashMismatch(ClusterError):  # noqa: N818  (what was found)
    """A session on a stage is not what it should be, or is not there: the stage has computed nothing of this work."""

    def __init__(self, session: int, text: str = "") -> None:
        super().__init__(session, text)
        self.session = session

    def __str__(self) -> str:
        return self.args[1] or f"session {self.session} is not what the coordinator expects: it has to be replayed"


class StageError(ClusterError):
    """A stage failed while it computed; the sessions of that work are gone there."""


@dataclass(frozen=True, slots=True)
class StateOrder:
    """Something to do with a session before the spans are run. What names a session or snapshot that is not there does
    nothing: whoever runs a span on it hears of that as HashMismatch.

        new            `session`, empty, under the steering number `snapshot` (0: none, see Stage.steer)
        drop           `session`
        rollback       the newest `num_tokens` of `session`
        snapshot       `snapshot` becomes a frozen copy of `session`
        restore        `session` becomes what `snapshot` is of, also where it was not there
        drop_snapshot  `snapshot`
        rebase         `snapshot` shares all it can with the longer snapshot whose number is in `session`
        pack           `snapshot` into buffers no longer than it needs
    """

    kind: OrderKind
    session: int = 0
    snapshot: int = 0
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SpanWork:
    """A span of a pass. `hash_before` and `hash_after`: see history.py, of its tokens and of all before them."""

    session: int
    start: int
    hash_before: int
    hash_after: int
    ids: Ids  # (n,)
    logits: LogitRows


@dataclass(frozen=True, slots=True)
class Work:
    """A pass on its way through the stages. `streams`: see boundary.py, the rows of all spans."""

    number: int  # consecutive from 0 in each generation of a route
    orders: tuple[StateOrder, ...] = ()  # done first, in order
    spans: tuple[SpanWork, ...] = ()
    streams: Bytes | None = None  # None without spans
    bits: Bits = 32
    is_ack_only: bool = False  # nobody wants anything back but that it is done


@dataclass(frozen=True, slots=True)
class Hop:
    """What one stage did for one piece of work: telemetry. `layers`: the first and the last."""

    layers: tuple[int, int]
    num_tokens: int
    eval_us: int = 0
    wait_us: int = 0
    send_us: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """From a stage that is not the last one the streams for the next; from the last one (wanted, V) logits of all spans
    one after the other, or nothing where nobody wants any."""

    number: int
    streams: Bytes | None = None
    logits: Logits | None = None
    hops: tuple[Hop, ...] = ()


class Route(Protocol):
    """A coordinator's way through all stages behind its own layers. Used by one thread at a time."""

    @property
    def generation(self) -> int:
        """Another number after every rebuilding: sessions and snapshots of one generation are not in another."""

    @property
    def stages(self) -> tuple[range, ...]:
        """The layers of each stage, from the coordinator's own on, without gaps, to the last."""

    def send(self, work: Work) -> "Future[Done]":
        """Begin a piece of work, after all that was sent before -> what the last stage gives, with the hops of all.

        Several may be under way. It fails with RouteBroken, HashMismatch or StageError; after the latter two the route
        goes on, and the orders of the work have reached every stage.
        """

    def call(self, stage: int, method: str, *args: Any) -> Any:
        """A method of one stage, between two pieces of work; raises what it raises, or RouteBroken."""


IsCancelled = Callable[[], bool]


class Routes(Protocol):
    """Where routes come from."""

    def rebuild(self, is_cancelled: IsCancelled) -> Route:
        """A whole route, the first one or in the place of a broken one, whose sessions are gone.

        Waits for one up to a limit of its own; then ClusterError says which layers lack. Cancelled soon after
        `is_cancelled` has become true.
        """
