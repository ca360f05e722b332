"""From the options of `whitedwarf agent` to a running one: what it is made of, and which way it is talked to.

Promises: what contradicts is told before a model loads; whatever ends it, also SIGTERM, a terminal that is gone and a
second Ctrl+C, the session is written, jobs and servers have ended, and the exit code says what happened.
"""

import sys

from whitedwarf.agent.approval import NobodyToAsk
from whitedwarf.cli.agent_display import AgentDisplay
from whitedwarf.cli.agent_lines import run_lines
from whitedwarf.cli.agent_modes import Mode, check_for_server
from whitedwarf.cli.agent_parts import Parts, open_parts
from whitedwarf.cli.agent_plain import run_plain
from whitedwarf.cli.agent_signals import ending_signals
from whitedwarf.cli.agent_turn import exit_code, finish_turn
from whitedwarf.cli.prompt_text import prompt_text
from whitedwarf.cli.screen import shown_on
from whitedwarf.config import AgentFlags, AgentModelSettings, SamplingSettings, SourceSettings, SteeringSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError


def start(
    mode: Mode,
    flags: AgentFlags,
    thinking: Thinking,
    text: str | None,
    sampling: SamplingSettings,
    steering: SteeringSettings,
    model: AgentModelSettings,
) -> int:
    """Until the user, or what was asked for, is done; the exit code."""
    check_for_server(flags, model, steering)
    if mode is Mode.PRINT:
        text = text if text is not None else prompt_text(SourceSettings(prompt_file="-")) or ""
        if not text.strip():
            raise UsageError("--print needs a prompt: the one that was given is empty")
    with ending_signals() as unheard, open_parts(flags, thinking, sampling, steering, model, unheard) as parts:
        match mode:
            case Mode.SCREEN:
                return _run_screen(parts, text)
            case Mode.PLAIN:
                return run_plain(parts, text)
            case Mode.LINES:
                return run_lines(parts)
            case Mode.ONE_TURN:
                return _run_once(parts, text or "", AgentDisplay(sys.stdout, sys.stderr))
            case Mode.PRINT:
                return _run_print(parts, text or "")


def _run_screen(parts: Parts, text: str | None) -> int:
    from whitedwarf.agent.tui.app import run_screen  # brings textual

    return run_screen(parts.cockpit, parts.screen_settings(text or ""))


def _run_print(parts: Parts, text: str) -> int:
    """Only the last answer's text goes to stdout."""
    display = AgentDisplay(sys.stderr, sys.stderr, holds_answer=True)
    code = _run_once(parts, text, display)
    if display.answer:
        print(shown_on(sys.stdout, display.answer), end="" if display.answer.endswith("\n") else "\n")
    return code


def _run_once(parts: Parts, text: str, display: AgentDisplay) -> int:
    seat = parts.seat(display.listen, NobodyToAsk())
    display.broken = seat.agent.interrupt
    told = parts.resume(seat)
    if told:
        display.note(told)
    seat.agent.submit(text)
    is_whole = finish_turn(seat.agent)
    seat.agent.close()
    return exit_code(display, is_whole)
