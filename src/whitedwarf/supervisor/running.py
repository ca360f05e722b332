"""A model that is up, as the desk and the proxy see it; child.py has the real one, tests have their own."""

from typing import Protocol

from whitedwarf.supervisor.upstream import Address


class Running(Protocol):
    """One process that answers requests, or a server that somebody else runs."""

    @property
    def pid(self) -> int:
        """Of the process; 0 where it is not ours."""
        ...

    @property
    def address(self) -> Address:
        """Where it listens; of an external server as its url says, with a prefix that may end in /v1."""
        ...

    @property
    def context_size(self) -> int:
        """Tokens that one request may have, as the server says; 0 where it does not."""
        ...

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know about how it came up."""
        ...

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        """The last lines of its log."""
        ...

    async def wait_exit(self) -> int:
        """Wait for the end of the process; its exit status."""
        ...

    async def stop(self) -> None:
        """End the process and all it started; returns when they are gone. Calls may come twice and in parallel."""
        ...

    def kill(self) -> None:
        """End it at once, without waiting."""
        ...
