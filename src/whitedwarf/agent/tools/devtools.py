"""Chrome's DevTools protocol over its WebSocket: a command and its answer, one at a time.

Promises: every wait ends at a deadline or when the user interrupts. ToolError for whatever the browser refuses.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from whitedwarf.agent.tool import Running, ToolError

MOST_MESSAGE_BYTES = 32 << 20
_LOOK_S = 0.1
_OPEN_S = 5.0


class DevTools:
    """A connection to a browser. OSError or WebSocketException where there is none."""

    def __init__(self, address: str) -> None:
        self._open = contextlib.ExitStack()
        opening = connect(address, max_size=MOST_MESSAGE_BYTES, open_timeout=_OPEN_S, close_timeout=1.0, proxy=None)
        self._socket = self._open.enter_context(opening)
        self._count = 0

    def call(
        self,
        method: str,
        parameters: Mapping[str, object],
        running: Running,
        deadline: float,
        session: str = "",
    ) -> dict[str, Any]:
        """The command's result; events that come meanwhile are dropped. `deadline` as time.monotonic tells it."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        try:
            self._socket.send(json.dumps(message))
            while True:
                answer = self._receive(running, deadline)
                if answer.get("id") == self._count:
                    break
        except (WebSocketException, OSError, ValueError) as error:
            raise ToolError(f"the browser went away ({str(error) or type(error).__name__}); try again") from error
        if "error" in answer:
            raise ToolError(f"the browser refused: {str(answer['error'].get('message'))[:200]}")
        result: dict[str, Any] = answer.get("result", {})
        return result

    def close(self) -> None:
        """End the connection; the browser goes on."""
        with contextlib.suppress(WebSocketException, OSError):
            self._open.close()

    def _receive(self, running: Running, deadline: float) -> dict[str, Any]:
        while True:
            if running.interrupted.is_set():
                raise ToolError("the user interrupted")
            if time.monotonic() > deadline:
                raise ToolError("the page took too long; try fetch, or another page")
            with contextlib.suppress(TimeoutError):
                answer: dict[str, Any] = json.loads(self._socket.recv(timeout=_LOOK_S))
                return answer
