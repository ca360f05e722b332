"""The tools of `whitedwarf agent`: where they work, and the MCP servers beside our own."""

from collections.abc import Sequence
from pathlib import Path

from whitedwarf.agent.home import home
from whitedwarf.agent.tool import Tool, Toolbox, ToolError
from whitedwarf.agent.tools.mcp_config import read_mcp_config
from whitedwarf.agent.tools.mcp_servers import McpServers
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace
from whitedwarf.cli.loading import note
from whitedwarf.config import AgentFlags
from whitedwarf.errors import UsageError

DEFAULT_CONFIG = Path(".whitedwarf") / "mcp.json"  # in the home


class Notices:
    """Lines from any thread: to stderr until somebody else shows them."""

    def __init__(self) -> None:
        self.deliver = note

    def __call__(self, text: str) -> None:
        """Show it."""
        self.deliver(text)


def workspace_of(flags: AgentFlags) -> Workspace:
    """The current folder, and those of --allow-write. UsageError where one is no folder."""
    try:
        return Workspace(Path.cwd(), flags.allow_write)
    except ToolError as error:
        raise UsageError(f"--allow-write: {error}") from error
    except OSError as error:
        raise UsageError(f"the current folder is gone: {error.strerror}; give another one with --chdir") from error


def toolbox_of(workspace: Workspace, others: Sequence[Tool]) -> Toolbox:
    """Our own tools, then the others."""
    return Toolbox.of(*standard_tools(workspace).tools.values(), *others)


def mcp_servers(flags: AgentFlags, notices: Notices) -> McpServers | None:
    """Those of the named file, or of the usual one; a fault in the latter costs its servers only."""
    path = flags.mcp_config or home() / DEFAULT_CONFIG
    if flags.mcp_config is None and not path.is_file():
        return None
    try:
        servers = read_mcp_config(path)
        return McpServers(servers, notices) if servers else None
    except UsageError as error:
        if flags.mcp_config is not None:
            raise
        notices(f"MCP servers are left out: {error}")
        return None
