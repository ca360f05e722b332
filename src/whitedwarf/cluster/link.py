"""One connection between two processes of a cluster: messages in order, and a sign of life where there are none.

Over a dask comm, so TLS is dask's. Promises: either end notices within `Patience.silence_s` that the other is gone,
stopped or cut off, however busy it is; large arrays travel in pieces, so that a slow line is not taken for a dead one;
what arrives is plain values and bytes, never an unpickled object. Everything here runs on one event loop.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from time import monotonic
from typing import Any

import numpy as np
from distributed.comm import Comm
from distributed.comm.core import connect

from whitedwarf.cluster.boundary import Bytes
from whitedwarf.cluster.patience import Patience

PIECE_BYTES = 1 << 20  # at 10 s of silence, a line of 100 kB/s is slow and not dead
Message = dict[str, Any]


class LinkLostError(OSError):
    """The other end is gone, or has been silent for too long."""


class Link:
    """Both directions of one connection. Close it; `receive` is for one task, `send` for any."""

    def __init__(self, comm: Comm, patience: Patience) -> None:
        self._comm = comm
        self._patience = patience
        self._sending = asyncio.Lock()
        self._sent_at = self._heard_at = monotonic()
        self._lost = ""
        self._pulse = asyncio.create_task(self._watch(), name="whitedwarf-pulse")

    @classmethod
    async def open(cls, address: str, connection_args: Mapping[str, Any], hello: Message, patience: Patience) -> "Link":
        """Connect to a member and say what for; LinkLostError where nobody (of ours) is there."""
        try:
            comm = await connect(address, timeout=patience.silence_s, **connection_args)
            await comm.write({**hello, "reply": False})
        except OSError as error:
            raise LinkLostError(f"{address}: {_reason(error)}") from error
        return cls(comm, patience)

    @property
    def peer(self) -> str:
        """The other end's address."""
        return str(self._comm.peer_address)

    @property
    def is_closed(self) -> bool:
        return bool(self._comm.closed())

    async def send(self, message: Message, array: Bytes | None = None) -> None:
        """Whole, and before what is sent later; LinkLostError where the other end is known to be gone."""
        async with self._sending:
            if array is None or len(array) <= PIECE_BYTES:
                await self._write(message if array is None else {**message, "array": array.data})
                return
            await self._write({**message, "size": len(array)})
            for start in range(0, len(array), PIECE_BYTES):
                await self._write({"array": array[start : start + PIECE_BYTES].data})
                await asyncio.sleep(0)  # others have something to say, too

    async def receive(self) -> tuple[Message, Bytes | None]:
        """The next message that says something, and an array of its own; LinkLostError at the end, whatever its
        reason."""
        while "pulse" in (message := await self._read()):
            pass
        size, array = message.pop("size", 0), message.pop("array", None)
        if not size:
            return message, None if array is None else np.frombuffer(bytearray(array), np.uint8)
        whole, filled = np.empty(size, np.uint8), 0
        while filled < size:
            piece = (await self._read())["array"]
            whole[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
            await asyncio.sleep(0)  # what is there already is read without a pause, and others wait
        return message, whole

    async def close(self) -> None:
        """Once or more often; what was sent before still goes out."""
        self._pulse.cancel()
        await asyncio.gather(self._pulse, return_exceptions=True)
        await self._comm.close()

    def abort(self) -> None:
        """At once."""
        self._pulse.cancel()
        self._comm.abort()

    async def _write(self, message: Message) -> None:
        self._sent_at = monotonic()
        try:
            await self._comm.write(message)
        except OSError as error:
            raise LinkLostError(self._lost or f"{self.peer}: {_reason(error)}") from error

    async def _read(self) -> Message:
        try:
            message: Message = await self._comm.read(deserializers=())
        except OSError as error:
            raise LinkLostError(self._lost or f"{self.peer}: {_reason(error)}") from error
        except (TypeError, ValueError) as error:  # nothing that a Link sends
            self._comm.abort()
            raise LinkLostError(f"{self.peer}: expected a message of whitedwarf; {error}") from error
        self._heard_at = monotonic()
        return message

    async def _watch(self) -> None:
        while not self.is_closed:
            asleep_at = monotonic()
            await asyncio.sleep(self._patience.pulse_s)
            self._heard_at += max(0.0, monotonic() - asleep_at - self._patience.pulse_s)  # we were late, not they
            if monotonic() - self._heard_at > self._patience.silence_s:
                self._lost = f"{self.peer}: no sign of life for {self._patience.silence_s:g} s"
                self._comm.abort()  # `receive` tells it
            elif monotonic() - self._sent_at >= self._patience.pulse_s:
                await self._send_pulse()

    async def _send_pulse(self) -> None:
        async with self._sending:
            with contextlib.suppress(LinkLostError):  # `receive` tells it
                await self._write({"pulse": True})


def _reason(error: OSError) -> str:
    """dask names its objects first and the system's word last."""
    reason = str(error).rpartition(">: ")[2]
    return "the connection has ended" if "Stream is closed" in reason else reason
