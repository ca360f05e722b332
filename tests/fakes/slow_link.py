"""Hosts on one machine: network namespaces, joined by a slow line of our own that loses packets or is cut.

Each host has a TUN device; a thread carries packets between them. Needs root, or at least CAP_NET_ADMIN and
/dev/net/tun; `why_not` says what is missing. Nothing is left behind: namespaces go with their last process.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU = 16_000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace with one address."""

    address: str
    namespace: int  # descriptor
    device: int  # descriptor

    def start(self, words: Sequence[str], **how: Any) -> "subprocess.Popen[str]":
        """A process on this host, with text streams."""
        return _in_thread(lambda: self._start(words, how))

    def _start(self, words: Sequence[str], how: dict[str, Any]) -> "subprocess.Popen[str]":
        _check(_libc().setns(self.namespace, _CLONE_NEWNET))
        return subprocess.Popen(words, text=True, **how)


class SlowLink:
    """Between all hosts: change `delay_s` (one way), `loss` (0 to 1) and `cut` (hosts without a line) at any time."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = tuple(hosts)
        self.delay_s = 0.0
        self.loss = 0.0
        self.cut: set[Host] = set()
        self._by_address = {bytes(map(int, host.address.split("."))): host for host in hosts}
        self._chance = random.Random(7)
        self._under_way: list[tuple[float, int, Host, bytes]] = []
        self._count = 0
        self._wake_read, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._carry, name="slow-link")
        self._thread.start()

    def close(self) -> None:
        os.close(self._wake)
        self._thread.join()
        os.close(self._wake_read)

    def _carry(self) -> None:
        devices = {host.device: host for host in self.hosts}
        while True:
            wait_s = max(0.0, self._under_way[0][0] - monotonic()) if self._under_way else None
            ready, _, _ = select.select([*devices, self._wake_read], [], [], wait_s)
            if self._wake_read in ready:
                return
            for device in ready:
                self._take(devices[device], os.read(device, 1 << 16))
            self._deliver()

    def _take(self, source: Host, packet: bytes) -> None:
        target = self._by_address.get(packet[16:20]) if packet[0] >> 4 == 4 else None
        if target is None or self._chance.random() < self.loss:
            return
        if source not in self.cut and target not in self.cut:
            self._count += 1
            heapq.heappush(self._under_way, (monotonic() + self.delay_s, self._count, target, packet))

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= monotonic():
            _, _, target, packet = heapq.heappop(self._under_way)
            with contextlib.suppress(OSError):  # its queue is full: a packet more that is lost
                os.write(target.device, packet)


@contextlib.contextmanager
def slow_link(num_hosts: int) -> Iterator[SlowLink]:
    """So many hosts, 10.77.0.1 and following, and a line between them."""
    hosts: list[Host] = []
    try:
        for number in range(1, num_hosts + 1):
            hosts.append(_in_thread(lambda number=number: _new_host(f"10.77.0.{number}")))
        link = SlowLink(hosts)
        try:
            yield link
        finally:
            link.close()
    finally:
        for host in hosts:
            os.close(host.device)
            os.close(host.namespace)


def why_not() -> str:
    """What stands in the way here; "" if nothing does."""
    try:
        with slow_link(1):
            return ""
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        return f"network namespaces with a TUN device are not permitted here: {error}"


def _new_host(address: str) -> Host:
    """In a thread of its own, which is left in the new namespace and ends."""
    _check(_libc().unshare(_CLONE_NEWNET))
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"line", _IFF_TUN | _IFF_NO_PI))
        for words in (
            f"link set line mtu {_MTU} up",
            f"addr add {address}/24 dev line",
            "link set lo up",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        return Host(address, os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC), device)
    except BaseException:
        os.close(device)
        raise


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _in_thread(work: Callable[[], _T]) -> _T:
    found: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
