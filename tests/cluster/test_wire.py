"""Work between stages: what arrives is what was sent, through dask's own way of writing messages."""

import asyncio
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from distributed.comm import Comm, listen
from distributed.protocol import dumps, loads
from hypothesis import given, settings

from whitedwarf.cluster.link import PIECE_BYTES, Link, LinkLostError
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.place import parse_layers, parse_place
from whitedwarf.cluster.wire import Failure, Passing, Result
from whitedwarf.cluster.work import Done, HashMismatch, Hop, SpanWork, StageError, StateOrder, Work
from whitedwarf.errors import UsageError

_NUMBERS = st.integers(0, 2**31 - 1)
_HASHES = st.integers(0, 2**64 - 1)
_KINDS = st.sampled_from(["new", "drop", "rollback", "snapshot", "restore", "drop_snapshot", "rebase", "pack"])
_BYTES = st.none() | st.binary(max_size=300).map(lambda data: np.frombuffer(data, np.uint8))
_IDS = st.lists(_NUMBERS, min_size=1, max_size=20).map(lambda ids: np.array(ids, np.int32))
_SPANS = st.builds(SpanWork, _NUMBERS, _NUMBERS, _HASHES, _HASHES, _IDS, st.sampled_from(["none", "last", "all"]))
_ORDERS = st.builds(StateOrder, _KINDS, _NUMBERS, _NUMBERS, _NUMBERS)
_HOPS = st.builds(Hop, st.tuples(_NUMBERS, _NUMBERS), *[_NUMBERS] * 6)
_FAILURES = st.none() | st.builds(Failure, st.text(max_size=50), st.none() | _NUMBERS)
_WORK = st.builds(
    Work,
    _NUMBERS,
    st.lists(_ORDERS, max_size=4).map(tuple),
    st.lists(_SPANS, max_size=4).map(tuple),
    _BYTES,
    st.sampled_from([32, 16, 8]),
    st.booleans(),
)


def carried(message: dict[str, Any], array: np.ndarray[Any, Any] | None) -> tuple[dict[str, Any], Any]:
    """As dask writes and reads it, without its pickle."""
    sent = message if array is None else {**message, "array": array.data}
    read = loads(dumps(sent), deserializers=())
    data = read.pop("array", None)
    return read, None if data is None else np.frombuffer(data, np.uint8)


def same(one: Any, other: Any) -> bool:
    """Of arrays, and of values that have arrays in them."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__slots__"):
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in one.__slots__)
    return bool(one == other)


@settings(max_examples=60)
@given(st.builds(Passing, _WORK, st.lists(_HOPS, max_size=3).map(tuple), _FAILURES))
def test_work_arrives_as_it_was_sent(passing: Passing) -> None:
    assert same(Passing.read(*carried(*passing.message())), passing)


@settings(max_examples=60)
@given(_NUMBERS, st.integers(0, 5), st.integers(1, 7), st.lists(_HOPS, max_size=3).map(tuple), _FAILURES, st.booleans())
def test_answers_arrive_as_they_were_sent(
    number: int, rows: int, width: int, hops: tuple[Hop, ...], failure: Failure | None, has_logits: bool
) -> None:
    logits = np.arange(rows * width, dtype=np.float32).reshape(rows, width) if has_logits else None
    result = Result(Done(number, None, logits, hops), failure)
    assert same(Result.read(*carried(*result.message())), result)


def test_failures_come_through_as_what_they_were() -> None:
    assert isinstance(Failure.of(HashMismatch(7, "other tokens")).error(), HashMismatch)
    assert Failure.of(HashMismatch(7)).error().args[0] == 7
    assert str(Failure.of(StageError("layers 3 to 4 failed")).error()) == "layers 3 to 4 failed"
    assert str(Failure.of(MemoryError("no room")).error()) == "MemoryError: no room"


@pytest.mark.parametrize("size", [0, 1, 100, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 5])
def test_arrays_of_any_size_arrive_whole_and_in_order(size: int) -> None:
    data = np.arange(size, dtype=np.uint32).astype(np.uint8)

    async def talk(link: Link) -> None:
        await asyncio.gather(link.send({"n": 1}, data), link.send({"n": 2}))
        first, array = await link.receive()
        second, nothing = await link.receive()
        assert (first, second, nothing) == ({"n": 1}, {"n": 2}, None)
        assert np.array_equal(array if array is not None else [], data)
        assert array is None or array.ctypes.data % 4 == 0

    asyncio.run(with_link(talk, Patience(), echo))


def test_a_silent_other_end_is_noticed_and_a_quiet_one_is_not() -> None:
    async def hush(link: Link) -> None:
        with pytest.raises(LinkLostError, match="no sign of life"):
            await link.receive()

    async def wait(link: Link) -> None:
        receiving = asyncio.create_task(link.receive())
        done, _ = await asyncio.wait([receiving], timeout=1.5)
        assert not done
        assert not link.is_closed
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)

    async def say_nothing(comm: Comm) -> None:
        await asyncio.sleep(3)

    quick = Patience(silence_s=0.5)
    asyncio.run(with_link(hush, quick, say_nothing))
    asyncio.run(with_link(wait, quick, lambda comm: echo(comm, quick)))


async def echo(comm: Comm, patience: Patience | None = None) -> None:
    link = Link(comm, patience or Patience())
    try:
        while True:
            await link.send(*await link.receive())
    except LinkLostError:
        await link.close()


async def with_link(talk: Any, patience: Patience, answer: Any) -> None:
    ended = asyncio.Event()

    async def handle(comm: Comm) -> None:
        await comm.read()
        serving = asyncio.create_task(answer(comm))
        await ended.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        comm.abort()

    listener = await listen("tcp://127.0.0.1:0", handle)
    link = await Link.open(listener.contact_address, {}, {"op": "talk"}, patience)
    try:
        await talk(link)
    finally:
        ended.set()
        await link.close()
        listener.stop()
        await asyncio.sleep(0.05)


def test_places_and_layers_are_read_as_people_write_them() -> None:
    assert parse_place("host:5") == ("host", 5)
    assert parse_place("10.0.0.1") == ("10.0.0.1", 8790)
    assert parse_place("[fe80::1]:77") == ("fe80::1", 77)
    for text in ("", "a:b", "a:0", "a:99999", "::1", "a b:5", "http://a:5"):
        with pytest.raises(UsageError):
            parse_place(text)
    assert parse_layers("0:30", 61) == range(31)
    assert parse_layers("31:output", 61) == range(31, 61)
    for text in ("", "3", "3:2", "0:61", "a:b", "1:2:3", "-1:4"):
        with pytest.raises(UsageError):
            parse_layers(text, 61)
