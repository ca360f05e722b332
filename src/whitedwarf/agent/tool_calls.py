"""Runs the calls of one answer, in their order, and tells of it.

Promises: a result for every call, whatever happens; what a tool raises is an error result. After an interruption the
calls that are left are not run, and say so.
"""

import logging
import threading
import time
from collections.abc import Sequence

from whitedwarf.agent.approval import Policy
from whitedwarf.agent.dialogue import Call, Result
from whitedwarf.agent.events import Listener, ToolBegan, ToolEnded, ToolOutput
from whitedwarf.agent.tool import Arguments, Outcome, Running, Toolbox, ToolError
from whitedwarf.errors import WhitedwarfError

log = logging.getLogger(__name__)

ERROR = "Tool error: "
_NOT_RUN = "this call was not run, because the user interrupted"


class ToolCalls:
    """The calls of one answer after the other; `interrupted` is set when the user wants them to end."""

    def __init__(self, toolbox: Toolbox, policy: Policy, listen: Listener, interrupted: threading.Event) -> None:
        self._toolbox = toolbox
        self._policy = policy
        self._listen = listen
        self._interrupted = interrupted
        self._began_s = 0.0

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """Their results."""
        return [self._run(index, call) for index, call in enumerate(calls)]

    def _run(self, index: int, call: Call) -> Result:
        arguments = Arguments(call.arguments)
        self._listen(ToolBegan(index, call.name, self._summary(call.name, arguments), call.arguments))
        self._began_s = time.monotonic()
        outcome = self._outcome(index, call.name, arguments)
        seconds = time.monotonic() - self._began_s
        text = ERROR + outcome.text if outcome.is_error and not outcome.text.startswith(ERROR) else outcome.text
        self._listen(ToolEnded(index, call.name, text, outcome.is_error, seconds, outcome.diff))
        return Result(call, text, outcome.is_error)

    def _outcome(self, index: int, name: str, arguments: Arguments) -> Outcome:
        if self._interrupted.is_set():
            return Outcome(_NOT_RUN, is_error=True)
        try:
            tool = self._toolbox.find(name)
            try:
                self._policy.check_call(tool, arguments)
            finally:
                self._began_s = time.monotonic()  # what the user takes to answer is no time of the tool's
            if self._interrupted.is_set():  # while the user was asked
                return Outcome(_NOT_RUN, is_error=True)
            running = Running(lambda text: self._listen(ToolOutput(index, text)), self._interrupted)
            return tool.run(arguments, running)
        except ToolError as error:
            return Outcome(str(error), is_error=True)
        except WhitedwarfError as error:
            return Outcome(f"{name} failed: {error}", is_error=True)
        except Exception as error:  # a tool's own code: what it may raise is not ours to know
            log.exception("tool_failed", extra={"tool": name})
            return Outcome(f"{name} failed: {type(error).__name__}: {error}", is_error=True)

    def _summary(self, name: str, arguments: Arguments) -> str:
        tool = self._toolbox.tools.get(name)
        if tool is None:
            return name
        try:
            return tool.summary(arguments)
        except Exception:  # as above
            log.exception("summary_failed", extra={"tool": name})
            return name
