"""What a supervisor costs between client and model: each request, each event, its memory, and when nothing happens.

Everything is asked directly too, in turns within the same run, so that a busy machine is busy for both. Latencies of
events are those of single ones, paced: each wakes the supervisor anew. A bare relay beside it says what of that is
the machine's: to wake another process and hand an event on.
"""

import json
import socket
import time
from dataclasses import dataclass
from statistics import median

from whitedwarf.bench.scripted_llama import SHORT_ANSWER
from whitedwarf.bench.supervisor_process import SupervisorProcess, relayed, scripted_start_s, supervised

BODY_BYTES = (100, 60_000)
EVENT_BYTES = (60, 300, 4_000)
PACE_MS = 1
_ROUNDS = 5
_IDLE_S = 5.0


@dataclass(frozen=True, slots=True)
class RequestSample:
    """Median seconds of a short answer, asked for with so large a body."""

    body_bytes: int
    direct_s: float
    supervised_s: float

    @property
    def added_s(self) -> float:
        """What the supervisor costs."""
        return self.supervised_s - self.direct_s


@dataclass(frozen=True, slots=True)
class EventSample:
    """Of events of so many bytes: the median of their latencies, paced; seconds of each, at once; processor time."""

    event_bytes: int
    direct_latency_s: float
    relayed_latency_s: float
    supervised_latency_s: float
    direct_wall_s: float
    supervised_wall_s: float
    paced_cpu_s: float
    cpu_s: float

    @property
    def added_latency_s(self) -> float:
        """What the supervisor adds to an event that comes alone."""
        return self.supervised_latency_s - self.direct_latency_s

    @property
    def relay_added_s(self) -> float:
        """What a relay adds to it that does nothing but hand it on."""
        return self.relayed_latency_s - self.direct_latency_s

    @property
    def added_wall_s(self) -> float:
        """What it adds to each of many that come together."""
        return self.supervised_wall_s - self.direct_wall_s


@dataclass(frozen=True, slots=True)
class SupervisorSample:
    """One run."""

    requests: tuple[RequestSample, ...]
    events: tuple[EventSample, ...]
    num_requests: int
    resident_bytes: int
    idle_cpu_share: float
    model_start_s: float
    cold_start_s: float

    @property
    def added_start_s(self) -> float:
        """What a cold start takes beyond the model's own start."""
        return self.cold_start_s - self.model_start_s


def measure_supervisor(num_requests: int, num_events: int) -> SupervisorSample:
    """All of it, on a supervisor of its own."""
    model_start_s = median(scripted_start_s() for _ in range(3))
    with supervised() as process:
        start_s = time.monotonic()
        _seconds(process.port, 1, 100)
        cold_start_s = time.monotonic() - start_s
        requests = tuple(_requests(process, num_requests, size) for size in BODY_BYTES)
        resident_bytes = process.resident_bytes
        with relayed(process.model_port) as relay:
            events = tuple(_events(process, relay, num_events, size) for size in EVENT_BYTES)
        before_s = process.cpu_s
        time.sleep(_IDLE_S)
        idle = (process.cpu_s - before_s) / _IDLE_S
    return SupervisorSample(
        requests, events, num_requests * len(BODY_BYTES), resident_bytes, idle, model_start_s, cold_start_s
    )


def _requests(process: SupervisorProcess, count: int, body_bytes: int) -> RequestSample:
    direct, through = [], []
    for _ in range(_ROUNDS):
        direct += _seconds(process.model_port, max(1, count // _ROUNDS), body_bytes)
        through += _seconds(process.port, max(1, count // _ROUNDS), body_bytes)
    return RequestSample(body_bytes, median(direct), median(through))


def _events(process: SupervisorProcess, relay: int, count: int, event_bytes: int) -> EventSample:
    rounds = []
    for _ in range(_ROUNDS):
        paced = max(1, count // _ROUNDS)
        direct, through = _Stream(process.model_port), _Stream(process.port)
        direct_latency_s = direct.latency_s(paced, event_bytes)
        relayed_latency_s = _Stream(relay).latency_s(paced, event_bytes)
        cpu_s = process.cpu_s
        latency_s = through.latency_s(paced, event_bytes)
        paced_cpu_s = (process.cpu_s - cpu_s) / paced
        cpu_s = process.cpu_s
        wall_s = through.wall_s(10 * paced, event_bytes)
        at_once_cpu_s = (process.cpu_s - cpu_s) / (10 * paced)
        direct_wall_s = direct.wall_s(10 * paced, event_bytes)
        latencies = (direct_latency_s, relayed_latency_s, latency_s)
        rounds.append((*latencies, direct_wall_s, wall_s, paced_cpu_s, at_once_cpu_s))
    return EventSample(event_bytes, *map(median, zip(*rounds, strict=True)))


def _seconds(port: int, count: int, body_bytes: int) -> list[float]:
    request = _request({"messages": "x" * body_bytes})
    taken = []
    with _connected(port) as connection:
        for _ in range(count):
            start_s = time.perf_counter()
            connection.sendall(request)
            answer = b""
            while not answer.endswith(SHORT_ANSWER):
                answer += _received(connection)
            taken.append(time.perf_counter() - start_s)
    return taken


class _Stream:
    """Streams from one port, each over a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    def latency_s(self, count: int, size: int) -> float:
        """Median seconds from sending an event to its arrival."""
        taken = []
        with _connected(self._port) as connection:
            connection.sendall(_request({"bench": {"events": count, "size": size, "pace_ms": PACE_MS}}))
            last = b""
            while not last.endswith(b"\r\n0\r\n\r\n"):
                piece, now = _received(connection), time.monotonic_ns()
                sent = [part.partition(b" ")[0] for part in piece.split(b"data: ")[1:]]
                taken += [(now - int(moment)) / 1e9 for moment in sent if moment.isdigit()]
                last = (last + piece)[-7:]
        return median(taken)

    def wall_s(self, count: int, size: int) -> float:
        """Seconds of each event, all of them at once."""
        start_s, last = time.perf_counter(), b""
        with _connected(self._port) as connection:
            connection.sendall(_request({"bench": {"events": count, "size": size, "pace_ms": 0}}))
            while not last.endswith(b"\r\n0\r\n\r\n"):
                last = (last + _received(connection))[-7:]
        return (time.perf_counter() - start_s) / count


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _received(connection: socket.socket) -> bytes:
    piece = connection.recv(1 << 18)
    if not piece:
        raise ConnectionError("the connection ended before the answer did")
    return piece


def _request(body: dict[str, object]) -> bytes:
    data = json.dumps({**body, "stream": "bench" in body}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(data) + data
