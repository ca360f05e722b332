"""Which sockets listen on a port, asked of the Linux kernel: by netlink, or of /proc/net/tcp where that is not allowed.

The kernel walks its table of all connections for each reading of /proc/net/tcp, 17 ms with 2,700 of them, in which no
stream goes on; netlink looks at those that listen, in 0.06 ms. Sockets are named by their inodes, as in /proc/PID/fd.
"""

import contextlib
import os
import socket
import struct
import sys
from pathlib import Path

_SOCK_DIAG = 4  # linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LISTENS = 10
_HEAD = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBIHH11I")
_INODE_AT = _HEAD.size + 68
_LISTENS_IN_PROC = "0A"


def listening_sockets(port: int) -> set[str] | None:
    """Their inodes; None where we may not know, as on Android."""
    if sys.platform != "linux":
        return None
    try:
        return _by_netlink(port, socket.AF_INET) | _by_netlink(port, socket.AF_INET6)
    except OSError:
        return _from_proc(port)


def sockets_of(pid: int) -> set[str]:
    """What a process has open; nothing where it is somebody else's, or gone."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115  (a Path for each file takes longer)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _by_netlink(port: int, family: int) -> set[str]:
    """OSError where the kernel does not answer that."""
    if sys.platform != "linux":
        return set()
    body = _ASK.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTENS, socket.htons(port), *[0] * 12)
    head = _HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0)
    found: set[str] = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(head + body)
        while not _read(kernel.recv(1 << 16), found):
            pass
    return found


def _read(data: bytes, found: set[str]) -> bool:
    """Some messages of the kernel; whether they were the last."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind == _ERROR or length < _HEAD.size:
            raise OSError("the kernel does not tell sockets")
        if kind == _DONE:
            return True
        found.add(str(struct.unpack_from("=I", data, at + _INODE_AT)[0]))
        at += length + 3 & ~3
    return False


def _from_proc(port: int) -> set[str] | None:
    rows = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            rows += [row.split() for row in Path(table).read_text(encoding="ascii").splitlines()]
    if not rows:
        return None
    listening = (row for row in rows if len(row) > 9 and row[3] == _LISTENS_IN_PROC)
    return {row[9] for row in listening if int(row[1].rpartition(":")[2], 16) == port}
