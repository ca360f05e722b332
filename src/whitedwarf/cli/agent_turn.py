"""Waiting for a turn on the main thread, and what a program is told of it."""

from whitedwarf.agent.events import AnswerEnd
from whitedwarf.agent.loop import Agent
from whitedwarf.cli.agent_display import AgentDisplay

DONE, FAILED, INTERRUPTED = 0, 1, 130


def finish_turn(agent: Agent) -> bool:
    """Wait until the agent is idle; False when Ctrl+C ended the turn early. A second one comes through."""
    try:
        agent.wait_idle()
    except KeyboardInterrupt:
        agent.interrupt()
        agent.wait_idle()
        return False
    return True


def exit_code(display: AgentDisplay, is_whole: bool = True) -> int:
    """Of a turn that is over; raises what kept the display from writing."""
    if display.error is not None:
        raise display.error
    if not is_whole or display.end is AnswerEnd.INTERRUPTED:
        return INTERRUPTED
    return DONE if display.end is AnswerEnd.DONE else FAILED
