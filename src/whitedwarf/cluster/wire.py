"""Work on its way through the stages, as messages of plain values and one array of bytes.

A stage that fails does not stop the line: the failure travels on in the place of the activations, so that numbers stay
consecutive, later stages still carry out the orders, and the coordinator hears of everything from the last one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from whitedwarf.cluster.boundary import Bytes
from whitedwarf.cluster.link import Message
from whitedwarf.cluster.work import Done, HashMismatch, Hop, SpanWork, StageError, StateOrder, Work
from whitedwarf.errors import WhitedwarfError


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one piece of work; `session` where it is that of a state that is not what it should be."""

    text: str
    session: int | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """From what a stage raised."""
        text = str(error) if isinstance(error, WhitedwarfError) else f"{type(error).__name__}: {error}"
        return cls(text, error.session if isinstance(error, HashMismatch) else None)

    def error(self) -> HashMismatch | StageError:
        """As the coordinator's model wants it."""
        return StageError(self.text) if self.session is None else HashMismatch(self.session, self.text)


@dataclass(frozen=True, slots=True)
class Passing:
    """Work between two stages: with the streams that enter the next one, and who has had it."""

    work: Work
    hops: tuple[Hop, ...] = ()
    failure: Failure | None = None

    def message(self) -> tuple[Message, Bytes | None]:
        """For a Link."""
        work = self.work
        return {
            "do": "work",
            "number": work.number,
            "orders": [(order.kind, order.session, order.snapshot, order.num_tokens) for order in work.orders],
            "spans": [_span(span) for span in work.spans],
            "bits": work.bits,
            "is_ack_only": work.is_ack_only,
            "hops": _hops(self.hops),
            "failure": _failure(self.failure),
        }, work.streams

    @classmethod
    def read(cls, message: Message, streams: Bytes | None) -> "Passing":
        """From a Link."""
        work = Work(
            number=message["number"],
            orders=tuple(StateOrder(*order) for order in message["orders"]),
            spans=tuple(_read_span(span) for span in message["spans"]),
            streams=streams,
            bits=message["bits"],
            is_ack_only=message["is_ack_only"],
        )
        return cls(work, _read_hops(message["hops"]), _read_failure(message["failure"]))


@dataclass(frozen=True, slots=True)
class Result:
    """What the last stage tells the coordinator."""

    done: Done
    failure: Failure | None = None

    def message(self) -> tuple[Message, Bytes | None]:
        """For a Link."""
        done = self.done
        message: Message = {
            "do": "done",
            "number": done.number,
            "hops": _hops(done.hops),
            "failure": _failure(self.failure),
            "logits": None,
        }
        if done.logits is None:
            return message, done.streams
        logits = np.ascontiguousarray(done.logits, np.float32)
        return message | {"logits": logits.shape}, logits.reshape(-1).view(np.uint8)

    @classmethod
    def read(cls, message: Message, array: Bytes | None) -> "Result":
        """From a Link."""
        shape, logits, streams = message["logits"], None, array
        if shape is not None:
            data = np.empty(0, np.uint8) if array is None else array
            logits, streams = data.view(np.float32).reshape(shape), None
        done = Done(message["number"], streams, logits, _read_hops(message["hops"]))
        return cls(done, _read_failure(message["failure"]))


def _span(span: SpanWork) -> tuple[Any, ...]:
    ids = np.ascontiguousarray(span.ids, "<i4").tobytes()
    return (span.session, span.start, span.hash_before, span.hash_after, ids, span.logits)


def _read_span(plain: tuple[Any, ...]) -> SpanWork:
    session, start, before, after, ids, logits = plain
    return SpanWork(session, start, before, after, np.frombuffer(ids, "<i4").astype(np.int32), logits)


def _hops(hops: tuple[Hop, ...]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(hop, name) for name in Hop.__slots__) for hop in hops]


def _read_hops(plain: list[tuple[Any, ...]]) -> tuple[Hop, ...]:
    return tuple(Hop(*hop) for hop in plain)


def _failure(failure: Failure | None) -> tuple[str, int | None] | None:
    return None if failure is None else (failure.text, failure.session)


def _read_failure(plain: tuple[str, int | None] | None) -> Failure | None:
    return None if plain is None else Failure(*plain)
