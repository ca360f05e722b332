"""What every request has to pass before it is heeded: its Host, its Origin, its key.

A page on the net can make a browser post to 127.0.0.1, or give its own name our address: neither may start a model,
stop one, or use it (spec/supervisor.md 2.26). Pure.
"""

from dataclasses import dataclass

from whitedwarf.supervisor.answers import refusal, wrong_key
from whitedwarf.supervisor.asgi import Request
from whitedwarf.supervisor.config import SupervisorConfig
from whitedwarf.supervisor.upstream import Answer
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule

OPEN_PATHS = ("/health", "/v1/health")
"""Read without a key: whoever watches over a server need not be able to use it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Which requests may pass."""

    hosts: HostRule
    keys: ApiKeys | None

    @classmethod
    def of(cls, config: SupervisorConfig, keys: ApiKeys | None) -> "Gate":
        """As the config says."""
        return cls(HostRule(frozenset(name.lower() for name in config.allowed_hosts)), keys)

    def refused(self, request: Request) -> Answer | None:
        """What to answer to one that may not pass."""
        if (foreign := self._foreign(request)) is not None:
            return refusal(403, foreign, "permission_error")
        if self._needs_key(request) and not self._has_key(request):
            return wrong_key()
        return None

    def _foreign(self, request: Request) -> str | None:
        host = request.header(b"host")
        if not self.hosts.admits_host(host):
            return f"the Host header names {host!r:.80}, which is not this machine: use its address or allowHosts"
        for name, value in request.headers:
            origin = value.decode("latin-1")
            if name == b"origin" and not self.hosts.admits_origin(origin, host):
                return f"web pages of {origin!r:.80} may not use this supervisor"
        # Browsers say where a request comes from also where they leave the origin out.
        if request.method != "GET" and request.header(b"sec-fetch-site") in ("cross-site", "same-site"):
            return "web pages of another site may not use this supervisor"
        return None

    def _needs_key(self, request: Request) -> bool:
        is_open = request.method in ("GET", "HEAD") and request.path in OPEN_PATHS  # a POST there wakes the model
        return self.keys is not None and request.method != "OPTIONS" and not is_open

    def _has_key(self, request: Request) -> bool:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers)}
        return self.keys is not None and self.keys.admits(headers)
