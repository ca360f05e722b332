"""Whose a port is, without a word to whoever listens there."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor import linux_sockets, listeners
from whitedwarf.supervisor.listeners import Claim, Owner, can_bind, free_port, owner_name, owner_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it all")
LISTENS = """
import socket, sys
one = socket.socket()
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
one.bind(("127.0.0.1", int(sys.argv[1])))
one.listen()
print(one.getsockname()[1], flush=True)
sys.stdin.read()
"""


def refuse(*_: object, **__: object) -> str:
    raise PermissionError


class Listener:
    """A process that leads a group and has a port, itself or by a child of its own."""

    def __init__(self, port: int = 0, *, is_wrapped: bool = False) -> None:
        argv = [sys.executable, "-c", LISTENS, str(port)]
        if is_wrapped:
            argv = ["sh", "-c", '"$0" "$@"; true', *argv]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self.process.stdout is not None
        self.pid, self.port = self.process.pid, int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate("")


@pytest.fixture
def begin() -> Iterator[list[Listener]]:
    begun: list[Listener] = []
    yield begun
    for listener in begun:
        listener.end()


def test_a_free_port_is_taken_as_it_is_and_others_are_stepped_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not can_bind("127.0.0.1", port)
        found = free_port(port, "127.0.0.1", {port + 1})
        assert found > port + 1
    assert free_port(port, "127.0.0.1", {port}) == port


def test_no_free_port_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "can_bind", lambda host, port: False)
    with pytest.raises(WhitedwarfError, match="ports 65500 to 65535 are all taken"):
        free_port(65_500, "127.0.0.1", ())


@linux
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_port_of_the_child_is_told_from_one_of_a_stranger(begin: list[Listener], is_wrapped: bool) -> None:
    begin += [Listener(is_wrapped=is_wrapped), Listener()]
    child, other = begin
    assert owner_of(child.port, child.pid) is Owner.CHILD
    assert owner_of(other.port, child.pid) is Owner.STRANGER
    assert f"(process {other.pid})" in (owner_name(other.port) or "")


@linux
def test_a_port_that_two_share_is_not_the_childs(begin: list[Listener]) -> None:
    """Who listens with SO_REUSEPORT lets others of the same user in: every other request would go to them."""
    begin.append(Listener())
    begin.append(Listener(begin[0].port))
    assert owner_of(begin[0].port, begin[0].pid) is Owner.STRANGER


@linux
def test_where_nobody_listens_is_nobody() -> None:
    with socket.socket() as bound:  # as `whitedwarf serve` has it while it loads
        bound.bind(("127.0.0.1", 0))
        assert owner_of(bound.getsockname()[1], os.getpid()) is Owner.NOBODY
        assert owner_name(bound.getsockname()[1]) is None


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_both_ways_to_ask_the_kernel_tell_the_same(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip("no IPv6 here")
        listener.listen()
        port, inode = listener.getsockname()[1], str(os.fstat(listener.fileno()).st_ino)
        assert linux_sockets.listening_sockets(port) == {inode}
        monkeypatch.setattr(linux_sockets, "_by_netlink", refuse)
        assert linux_sockets.listening_sockets(port) == {inode}
        assert inode in linux_sockets.sockets_of(os.getpid())


@linux
def test_where_the_system_does_not_tell_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux_sockets, "_by_netlink", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    assert owner_of(80, os.getpid()) is Owner.UNKNOWN


@linux
def test_a_port_that_was_lost_to_a_stranger_is_not_held(begin: list[Listener]) -> None:
    begin.append(Listener())
    child = begin[0]
    claim = Claim(child.port, child.pid)
    assert claim.holds()
    child.end()
    assert claim.holds()  # nobody is there: a connection fails by itself
    begin.append(Listener(child.port))
    assert not claim.holds()


@linux
def test_a_child_that_listens_anew_holds_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        claim = Claim(port, os.getpid())
    with socket.create_server(("127.0.0.1", port)):
        assert claim.holds()
