"""The model of `whitedwarf agent`: in this process with its sessions on disk, or behind a URL."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from whitedwarf.agent.commands import Commands, Confirm
from whitedwarf.agent.dialogue import Dialogue
from whitedwarf.agent.events import Listener
from whitedwarf.agent.history import History
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.sessions import Sessions, SessionSettings
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.steering_switch import SteeringSwitch
from whitedwarf.agent.store import DEFAULT_FOLDER, SessionStore
from whitedwarf.agent.store_opening import open_stateless_store, open_store
from whitedwarf.cli.loading import LoadedModel, note, open_model, open_tokenizer
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.config import AGENT_CONTEXT, AgentFlags, AgentModelSettings, SteeringSettings
from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.steering_wish import SteeringWish
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.script import ScriptWords, read_script
from whitedwarf.web.endpoint.address import is_overheard
from whitedwarf.web.endpoint.model_list import ask_models
from whitedwarf.web.endpoint.server_options import ServerOptions, server_options
from whitedwarf.weights.store import find_model


class AgentModel(Protocol):
    """What answers, and what belongs to it."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def dialogue(self) -> Dialogue: ...

    def power_percent(self) -> int: ...

    def sessions(self, listen: Listener, workspace: str) -> Sessions | None:
        """What keeps the sessions, where they are kept."""
        ...

    def commands(self, agent: Agent, sessions: Sessions | None, confirm: Confirm) -> Commands: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalModel:
    """In this process."""

    name: str
    dialogue: LocalDialogue
    engine: Engine
    tokenizer: Tokenizer
    store: SessionStore
    transformer: DeepSeek
    wish: SteeringWish | None
    notice: Callable[[str], None]

    def power_percent(self) -> int:
        """As AgentModel."""
        return self.engine.power_percent

    def sessions(self, listen: Listener, workspace: str) -> Sessions | None:
        """As AgentModel."""
        return Sessions(self.store, self.engine, self.dialogue, listen, SessionSettings(self.name, workspace))

    def commands(self, agent: Agent, sessions: Sessions | None, confirm: Confirm) -> Commands:
        """As AgentModel."""
        steer = None
        if sessions is not None:
            steer = SteeringSwitch(self.transformer, self.engine, sessions, self.wish, self.notice)
        return Commands(agent, sessions, History(self.tokenizer), confirm, engine=self.engine, steer=steer)

    def close(self) -> None:
        """End the engine."""
        self.engine.close()


@dataclass(frozen=True, slots=True)
class ScriptModel:
    """Answers from a file: to see how the agent works without a model that is up to it. Sessions have words only."""

    name: str
    dialogue: LocalDialogue
    engine: ScriptedEngine
    tokenizer: Tokenizer
    store: SessionStore

    def power_percent(self) -> int:
        """Nothing is computed."""
        return 100

    def sessions(self, listen: Listener, workspace: str) -> Sessions | None:
        """As AgentModel."""
        return Sessions(self.store, self.engine, self.dialogue, listen, SessionSettings(self.name, workspace))

    def commands(self, agent: Agent, sessions: Sessions | None, confirm: Confirm) -> Commands:
        """As AgentModel."""
        return Commands(agent, sessions, History(self.tokenizer), confirm)

    def close(self) -> None:
        """End the engine."""
        self.engine.close()


@dataclass(frozen=True, slots=True)
class ServerModel:
    """Behind a URL."""

    name: str
    dialogue: Dialogue

    def power_percent(self) -> int:
        """All of it, as far as we know."""
        return 100

    def sessions(self, listen: Listener, workspace: str) -> Sessions | None:
        """None are kept."""
        return None

    def commands(self, agent: Agent, sessions: Sessions | None, confirm: Confirm) -> Commands:
        """As AgentModel."""
        return Commands(agent, None, None, confirm)

    def close(self) -> None:
        """Nothing is open between requests."""


def open_local(
    flags: AgentFlags,
    settings: AgentModelSettings,
    steering: SteeringSettings,
    how: AgentSettings,
    notice: Callable[[str], None],
) -> LocalModel:
    """Load it; `notice` is told what the user should know later on."""
    wish = steering_wish(steering)
    loaded = steered(open_model(settings, default_context=AGENT_CONTEXT), wish)
    tokenizer = loaded.tokenizer()
    note(loaded.describe())
    if how.thinking.within(loaded.context_length) is not how.thinking:
        note(f"--think-max needs --ctx {MAX_THINKING_CONTEXT} or more, this is {loaded.context_length}: using --think")
    store = _store(loaded, tokenizer, flags.sessions_dir or DEFAULT_FOLDER)
    engine = Engine(
        loaded.transformer,
        max_chunk_tokens=loaded.chunk_tokens,
        max_parallel=1,
        power_percent=settings.power,
        drafting=loaded.drafting(),
    )
    dialogue = LocalDialogue(engine, tokenizer, ModelVersion(settings.recipe.upper()), how)
    name = str(loaded.gguf.metadata.get("general.name") or loaded.gguf.paths[0].name)
    return LocalModel(name, dialogue, engine, tokenizer, store, loaded.transformer, wish, notice)


def open_script(path: Path, flags: AgentFlags, settings: AgentModelSettings, how: AgentSettings) -> ScriptModel:
    """Of the model only the tokenizer is used. FileFormatError where the file is no script."""
    with open_gguf(find_model(settings.model).path) as gguf:
        tokenizer = open_tokenizer(gguf)
    context_length = settings.context or AGENT_CONTEXT
    answers = read_script(path, ScriptWords.of(tokenizer))
    note(f"answers come from {path}, not from a model: {len(answers)}, the last again and again")
    try:
        store = open_stateless_store(tokenizer, context_length, flags.sessions_dir or DEFAULT_FOLDER)
    except UsageError as error:
        raise UsageError(f"{error}: --sessions-dir") from error
    engine = ScriptedEngine(answers, context_length=context_length, vocab_size=tokenizer.vocab_size, max_parallel=1)
    dialogue = LocalDialogue(engine, tokenizer, ModelVersion(settings.recipe.upper()), how)
    return ScriptModel(f"script {path.name}", dialogue, engine, tokenizer, store)


def _store(loaded: LoadedModel, tokenizer: Tokenizer, folder: Path) -> SessionStore:
    try:
        return open_store(loaded.transformer, loaded.gguf, tokenizer, quality=loaded.settings.quality, folder=folder)
    except UsageError as error:
        raise UsageError(f"{error}: --sessions-dir") from error


def open_server(flags: AgentFlags, settings: AgentModelSettings, how: AgentSettings) -> ServerModel:
    """Find the model. UsageError where the server has several and none is named; EndpointError where nobody answers."""
    assert flags.url is not None
    options = server_options(flags.url, flags.api_key_env, flags.model_name, flags.extra_body)
    os.environ.pop(flags.api_key_env or "", None)  # no command of the model's has to know it
    if options.key is not None and is_overheard(options.base):
        note(f"the key from {flags.api_key_env} goes to {options.base} without encryption")
    options, told_context = _found(options)
    context_length = settings.context or min(told_context or AGENT_CONTEXT, AGENT_CONTEXT)
    if told_context is None and settings.context is None:
        note(f"the server does not say how long its context is: taking {AGENT_CONTEXT} tokens; --ctx says another")
    if told_context is not None and context_length > told_context:
        raise UsageError(f"--ctx {context_length}: {options.model} has a context of {told_context}; give at most that")
    from whitedwarf.agent.url_dialogue import UrlDialogue  # brings an HTTP client

    dialogue = UrlDialogue(options, context_length, how.thinking, how.sampling)
    note(f"{options.model} at {options.base}, context {context_length} tokens")
    return ServerModel(str(options.model), dialogue)


def _found(options: ServerOptions) -> tuple[ServerOptions, int | None]:
    """With the model's name, and the context that the server says it has."""
    listed = ask_models(options)
    if options.model is None:
        if listed.status in (401, 403):
            raise UsageError(
                f"{listed.url} answers {listed.status}: it wants a key; name a variable that has it: --api-key-env"
            )
        if len(listed.names) != 1:
            known = f"it has {', '.join(listed.names[:12])}" if listed.names else "it names none"
            raise UsageError(f"which model of {options.base}? Give --model-name NAME; {known}")
        options = replace(options, model=listed.names[0])
    return options, listed.context_length(str(options.model))
