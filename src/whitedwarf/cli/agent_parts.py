"""What an agent is made of: a model here or behind a URL, tools, sessions, a trace; put together once somebody listens.

Promises: everything that can be refused is refused before an agent runs; all that was opened is closed in the end, in
the order that loses nothing: the agent with its jobs, the session, the engine, the servers, the trace.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from whitedwarf.agent.approval import Approver, NobodyToAsk
from whitedwarf.agent.commands import Commands, Confirm
from whitedwarf.agent.events import Listener, Notice
from whitedwarf.agent.home import home
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.secrets import Secrets
from whitedwarf.agent.sessions import Sessions
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.store import SHORT_ID
from whitedwarf.agent.tool import Tool, Toolbox
from whitedwarf.agent.tui.cockpit import Cockpit, ScreenApprover, ScreenSettings
from whitedwarf.agent.tui.theme_file import ThemeFile
from whitedwarf.agent.workspace import Workspace
from whitedwarf.cli.agent_model import AgentModel, open_local, open_script, open_server
from whitedwarf.cli.agent_rules import policy_of
from whitedwarf.cli.agent_tools import Notices, mcp_servers, toolbox_of, workspace_of
from whitedwarf.cli.agent_trace import AgentTrace, logged_to
from whitedwarf.cli.loading import note
from whitedwarf.config import AgentFlags, AgentModelSettings, SamplingSettings, SteeringSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.request import SamplingOptions
from whitedwarf.errors import WhitedwarfError

HISTORY_NAME = ".whitedwarf_agent_history"
THEME_FILE = Path(".whitedwarf") / "agent-theme"  # in the home


@dataclass(frozen=True, slots=True)
class Seat:
    """A running agent, and its slash commands."""

    agent: Agent
    commands: Commands
    sessions: Sessions | None


@dataclass(frozen=True, slots=True)
class Parts:
    """Ready to be put together, once. `opened` closes everything."""

    flags: AgentFlags
    settings: AgentSettings
    workspace: Workspace
    toolbox: Toolbox
    model: AgentModel
    notices: Notices
    trace: AgentTrace | None = None
    opened: ExitStack = field(default_factory=ExitStack)

    def seat(self, listen: Listener, approver: Approver, confirm: Confirm = lambda text: False) -> Seat:
        """Begin. `confirm` answers yes or no to what is no call."""
        policy = policy_of(self.flags, self.toolbox, approver)
        traced = listen if self.trace is None else self.trace.beside(listen)
        sessions = self.model.sessions(traced, str(self.workspace.root))
        if sessions is not None:
            self.opened.callback(sessions.close)
        hear = traced if sessions is None else sessions.hear
        agent = Agent(self.model.dialogue, self.toolbox, policy, hear, self.settings)
        self.opened.callback(agent.close)
        if sessions is not None:
            sessions.attach(agent)
        if not isinstance(approver, NobodyToAsk):
            self.opened.callback(_tell_of, sessions)
        self.notices.deliver = lambda text: agent.request(lambda: agent.tell(Notice(text)))
        return Seat(agent, self.model.commands(agent, sessions, confirm), sessions)

    def resume(self, seat: Seat) -> str:
        """Go on with the session that the flags name, if they do; what is to be told of it. WhitedwarfError.

        When it returns the session has begun, so that commands are not too early.
        """
        seat.agent.wait_idle()
        sessions = seat.sessions
        wanted = self.flags.session
        if sessions is None or (wanted is None and not self.flags.continue_):
            return ""
        if wanted is None:
            entries = sessions.listing().entries
            wanted = next((entry.id for entry in entries if not sessions.store.is_open(entry.id)), None)
            if wanted is None:
                return "no session of this model was saved yet: this is a new one"
        outcome = seat.commands.obey(f"/switch {wanted}")
        if outcome.is_error:
            raise WhitedwarfError(outcome.text)
        return outcome.text

    def cockpit(self, listen: Listener, approver: ScreenApprover) -> Cockpit:
        """For the screen."""
        seat = self.seat(listen, approver, approver.confirm)
        told = self.resume(seat)
        if told:
            self.notices.deliver(told)
        return Cockpit(seat.agent, seat.commands, lambda: self.model.dialogue.context_length, self.model.power_percent)

    def screen_settings(self, first_prompt: str) -> ScreenSettings:
        """How the screen begins."""
        from whitedwarf.cli.history import LineHistory  # brings prompt_toolkit

        return ScreenSettings(
            model=self.model.name,
            workspace=str(self.workspace.root),
            past=LineHistory(home() / HISTORY_NAME),
            themes=ThemeFile(home() / THEME_FILE),
            compact_at=self.settings.compact_at,
            is_screen_reader=self.flags.screen_reader,
            first_prompt=first_prompt,
        )


def _tell_of(sessions: Sessions | None) -> None:
    """How to go on with a session that was just left."""
    if sessions is not None and sessions.current_id:
        note(f"session {sessions.current_id[:SHORT_ID]} is kept; whitedwarf agent --continue goes on with it")


@contextmanager
def open_parts(
    flags: AgentFlags,
    thinking: Thinking,
    sampling: SamplingSettings,
    steering: SteeringSettings,
    model: AgentModelSettings,
    closing: Callable[[], None] = lambda: None,
) -> Iterator[Parts]:
    """All of it, closed at the end of the block, which `closing` hears of just before."""
    workspace = workspace_of(flags)
    settings = agent_settings(flags, thinking, sampling, workspace)
    notices = Notices()
    with ExitStack() as opened, ExitStack() as first:
        first.callback(closing)
        trace = None
        if flags.trace is not None:
            key = os.environ.get(flags.api_key_env or "", "")
            trace = AgentTrace.open(flags.trace, Secrets.of({**os.environ, "API_KEY": key}), notices)
            opened.callback(trace.close)
        opened.enter_context(logged_to(trace))
        servers = mcp_servers(flags, notices)  # they start while the model loads
        if servers is not None:
            opened.callback(servers.close)
        made = _model(flags, model, steering, settings, notices)
        opened.callback(made.close)
        mcp_tools: list[Tool] = [] if servers is None else servers.tools()
        toolbox = toolbox_of(workspace, mcp_tools)
        opened.callback(toolbox.close)
        policy_of(flags, toolbox, NobodyToAsk())  # names of tools that there are not are told now
        yield Parts(flags, settings, workspace, toolbox, made, notices, trace, opened)


def _model(
    flags: AgentFlags,
    model: AgentModelSettings,
    steering: SteeringSettings,
    settings: AgentSettings,
    notices: Notices,
) -> AgentModel:
    if flags.url:
        return open_server(flags, model, settings)
    if model.script is not None:
        return open_script(model.script, flags, model, settings)
    return open_local(flags, model, steering, settings, notices)


def agent_settings(
    flags: AgentFlags, thinking: Thinking, sampling: SamplingSettings, workspace: Workspace
) -> AgentSettings:
    """How the agent works."""
    return AgentSettings(
        thinking=thinking,
        max_answer_tokens=sampling.max_tokens,
        sampling=SamplingOptions(sampling.temperature, sampling.top_p, sampling.min_p, seed=sampling.seed),
        extra_system=flags.system,
        workspace=str(workspace.root),
    )
