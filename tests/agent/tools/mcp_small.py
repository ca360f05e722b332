"""A small MCP server, to be run in a process: `python mcp_small.py stdio|PORT`. Also one that misbehaves on request."""

import os
import sys
import time

from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("small")


@server.tool()
def add(first: int, second: int) -> str:
    """Add two numbers."""
    return str(first + second)


@server.tool()
def environment(name: str) -> str:
    """A variable."""
    return os.environ.get(name, "(unset)")


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@server.tool()
def picture() -> Image:
    """One pixel."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
def sleep(seconds: float) -> str:
    """Take time."""
    time.sleep(seconds)
    return "slept"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def much() -> str:
    """A long text."""
    return "x" * 300_000


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
