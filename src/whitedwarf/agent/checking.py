"""What the tools say to a call while it is written; asked on the engine's thread.

Promises: of `Checks`. Behind a call of the same answer that changes something, nothing is checked: what would be looked
at is not yet what the later call will meet. A tool that fails at looking refuses nothing.
"""

import logging
from collections.abc import Mapping

from whitedwarf.agent.tool import Effect, Toolbox, ToolError

log = logging.getLogger(__name__)


class Checking:
    """The `Checks` of one answer."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._open_tool = ""
        self._has_changed = False

    def closed(self, tool: str, parameter: str, arguments: Mapping[str, str]) -> None:
        """ToolError where the call cannot work, whatever is still to come."""
        found = self._toolbox.find(tool)
        if len(arguments) == 1:  # another call has begun
            self._has_changed = self._has_changed or self._changes(self._open_tool)
            self._open_tool = tool
        if self._has_changed:
            return
        try:
            found.preflight(parameter, arguments)
        except ToolError:
            raise
        except Exception:  # a tool's own code: what it may raise is not ours to know
            log.exception("preflight_failed", extra={"tool": tool})

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        """Whether the rest of the parameter may be `[upto]`."""
        if self._has_changed or tool not in self._toolbox.tools:
            return False
        try:
            return self._toolbox.tools[tool].may_skip(parameter, begun, arguments)
        except Exception:  # as above
            log.exception("may_skip_failed", extra={"tool": tool})
            return False

    def _changes(self, tool: str) -> bool:
        return tool in self._toolbox.tools and self._toolbox.tools[tool].effect in (Effect.WRITE, Effect.RUN)
