"""The tools of MCP servers, as tools of the agent: `mcp__SERVER__TOOL`.

All servers live on one thread with an event loop of its own. Promises: a server that does not start, dies, hangs or
lists garbage costs its own tools and nothing else, and a notice says why; every wait has an end; no text has a secret
of the configuration; when `close` returns, the processes that were started have ended.
"""

import asyncio
import contextlib
import logging
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.mcp_arguments import fitted
from whitedwarf.agent.tools.mcp_config import McpServer
from whitedwarf.agent.tools.mcp_results import result_text
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.errors import ConversationError, UsageError

if TYPE_CHECKING:
    from mcp import Client

START_S = 30.0
CALL_S = 600.0
CONNECT_S = 30.0
CLOSE_S = 10.0
MOST_TOOLS = 128  # of one server
_MOST_PAGES = 32
_LONGEST_NAME = 64  # OpenAI's limit
_LONGEST_DESCRIPTION = 4000
_LOOK_S = 0.05  # how often an interrupt is looked for
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_T = TypeVar("_T")
Notice = Callable[[str], None]


@dataclass(slots=True)
class _Connection:
    """A server while it runs. `client` is None before and after."""

    server: McpServer
    client: "Client | None" = None
    listed: list[Any] = field(default_factory=list)
    errors: TextIO | None = None

    @property
    def effect(self) -> Effect:
        return Effect.NETWORK if self.server.url else Effect.RUN


class McpServers:
    """Starts servers at once and tells their tools; `close` it. UsageError without the package `mcp`."""

    def __init__(
        self, servers: Sequence[McpServer], notice: Notice, start_s: float = START_S, call_s: float = CALL_S
    ) -> None:
        """`notice` is told of each failure, in a line, from any thread."""
        check_package()
        self._notice = notice
        self._start_s = start_s
        self._call_s = call_s
        self._connections = [_Connection(server) for server in servers]
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = [Future[None]() for _ in servers]
        self._thread = threading.Thread(target=self._run, name="mcp-servers", daemon=True)
        self._thread.start()

    def tools(self) -> list[Tool]:
        """Of all servers that have started, which is waited for."""
        for started in self._started:
            started.result()
        found: dict[str, Tool] = {}
        for connection in self._connections:
            for tool in self._tools_of(connection):
                if found.setdefault(tool.name, tool) is not tool:
                    self._notice(f"MCP server {connection.server.name}: has two tools called {tool.name}")
        return list(found.values())

    def close(self) -> None:
        """End all servers; more than once is well."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it ended just now
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(CLOSE_S)

    def call(self, connection: _Connection, name: str, arguments: Mapping[str, Any], running: Running) -> Outcome:
        """One call; ToolError when the server fails, does not answer in time, or the user interrupts."""
        server = connection.server
        client = connection.client
        if client is None:
            raise ToolError(f"the MCP server {server.name} has ended; its tools are gone for this session")
        try:
            result = self._wait(client.call_tool(name, dict(arguments), read_timeout_seconds=self._call_s), running)
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(f"the MCP server {server.name} failed: {_told(error, server)}") from error
        return Outcome(server.hide(result_text(result.content, result.structured_content)), bool(result.is_error))

    def _wait(self, work: Coroutine[Any, Any, _T], running: Running) -> _T:
        limited = asyncio.wait_for(work, self._call_s)
        try:
            future = asyncio.run_coroutine_threadsafe(limited, self._loop)
        except RuntimeError as error:
            limited.close()
            work.close()
            raise ToolError("the MCP servers have been closed") from error
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(_LOOK_S)
            if future.done():
                raise ToolError(f"no answer within {self._call_s:.0f} s; ask for less, or do without")
            if running.interrupted.is_set():
                future.cancel()
                raise ToolError("the user interrupted the call")

    def _tools_of(self, connection: _Connection) -> list[Tool]:
        tools: list[Tool] = []
        faults: list[str] = []
        for listed in connection.listed[:MOST_TOOLS]:
            try:
                tools.append(McpTool(self, connection, str(listed.name), definition(connection.server.name, listed)))
            except (ConversationError, ValueError) as error:
                faults.append(_told(error, connection.server))
        if len(connection.listed) > MOST_TOOLS:
            faults.append(f"only {MOST_TOOLS} of its {len(connection.listed)} tools are used")
        for fault in faults[:3]:
            self._notice(f"MCP server {connection.server.name}: {fault}")
        return tools

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve_all())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _serve_all(self) -> None:
        """Until all have ended; those that are still starting when `close` is called are given up."""
        pairs = list(zip(self._connections, self._started, strict=True))
        tasks = [asyncio.create_task(self._serve(connection, started)) for connection, started in pairs]
        ended, stopping = asyncio.gather(*tasks), asyncio.create_task(self._stop.wait())
        first: set[asyncio.Future[Any]] = {ended, stopping}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        for (_, started), task in zip(pairs, tasks, strict=True):
            if not started.done():
                task.cancel()
        stopping.cancel()
        await ended

    async def _serve(self, connection: _Connection, started: "Future[None]") -> None:
        """One server from its start to its end; whatever happens to it stays here."""
        try:
            with tempfile.TemporaryFile("w+", errors="replace") as connection.errors:
                await self._live(connection, started)
        except (Exception, asyncio.CancelledError) as error:
            connection.listed = connection.listed if started.done() else []
            if not self._stop.is_set():
                self._notice(f"MCP server {connection.server.name}: {_told(error, connection.server)}")
        finally:
            connection.client = None
            if not started.done():
                started.set_result(None)

    async def _live(self, connection: _Connection, started: "Future[None]") -> None:
        from mcp import Client

        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._start_s):
                    transport = await _transport(connection, stack)
                    client = await stack.enter_async_context(Client(transport, read_timeout_seconds=self._call_s))
                    connection.listed = await _all_tools(client)
            except TimeoutError:
                raise TimeoutError(f"did not start within {self._start_s:.0f} s{_last_words(connection)}") from None
            except Exception as error:
                raise RuntimeError(f"{_told(error, connection.server)}{_last_words(connection)}") from error
            connection.client = client
            started.set_result(None)
            await self._stop.wait()


class McpTool(Tool):
    """One tool of a server."""

    def __init__(self, servers: McpServers, connection: _Connection, name: str, described: ToolDefinition) -> None:
        self.definition = described
        self.effect = connection.effect
        self._servers = servers
        self._connection = connection
        self._own_name = name

    def summary(self, arguments: Arguments) -> str:
        """The server, its tool, and the arguments as far as they fit in a line."""
        shown = ", ".join(f"{name}={repr(value)[:60]}" for name, value in arguments.values.items())
        return f"{self._connection.server.name}: {self._own_name}({shown})"[:200]

    def detail(self, arguments: Arguments) -> str:
        """All arguments."""
        return "\n".join(f"{name}: {value}" for name, value in arguments.values.items())

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """Have the server do it."""
        fitting = fitted(arguments.values, self.definition.parameters)
        return self._servers.call(self._connection, self._own_name, fitting, running)


def check_package() -> None:
    """UsageError unless the package is there."""
    import importlib.util

    if importlib.util.find_spec("mcp") is None:
        how = f"{sys.executable} -m pip install mcp"
        raise UsageError(f"MCP servers need the package mcp: {how}, or leave --mcp-config out")
    for name in ("mcp", "client"):  # its loggers; screens are no place for tracebacks
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False


def definition(server: str, listed: Any) -> ToolDefinition:
    """A tool as a server lists it, for the model; ValueError for a name that no model can call."""
    name = f"mcp__{server}__{listed.name}"
    if not _NAME.fullmatch(str(listed.name)) or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"a tool called {str(listed.name)[:80]!a} is left out: expected letters, digits, _ and -, with its prefix "
            f"at most {_LONGEST_NAME}"
        )
    schema = listed.input_schema if isinstance(listed.input_schema, dict) else None
    return ToolDefinition(name, str(listed.description or "")[:_LONGEST_DESCRIPTION] or None, schema)


async def _transport(connection: _Connection, stack: contextlib.AsyncExitStack) -> Any:
    """What the package's client talks through."""
    import httpx2
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    server = connection.server
    if server.url:
        http = httpx2.AsyncClient(headers=dict(server.headers), timeout=httpx2.Timeout(CONNECT_S, read=CALL_S))
        await stack.enter_async_context(http)
        return streamable_http_client(server.url, http_client=http)
    assert connection.errors is not None
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.arguments),
        env=dict(server.environment),
        cwd=server.folder,
        encoding_error_handler="replace",
    )
    return stdio_client(parameters, errlog=connection.errors)


async def _all_tools(client: "Client") -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) > MOST_TOOLS:
            break
    return tools


def _last_words(connection: _Connection) -> str:
    """The last line that a server of ours said on stderr."""
    if connection.errors is None or connection.server.url:
        return ""
    connection.errors.seek(0)
    lines = [line.strip() for line in connection.errors.read()[-4000:].splitlines() if line.strip()]
    return f"; it said: {connection.server.hide(lines[-1])[:300]}" if lines else ""


def _told(error: BaseException, server: McpServer) -> str:
    """The innermost error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    told = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    text = " ".join(told.split()) or type(error).__name__
    return server.hide(text)[:400]
