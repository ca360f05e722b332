"""An agent whose sessions are kept in a folder: over the bundled model, or over a script."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent.scripted_agent import PATIENCE_S, QUICK, Ear, allowing, engine_of
from agent.store_bench import nano, tokens
from whitedwarf.agent.approval import Policy
from whitedwarf.agent.commands import CommandOutcome, Commands
from whitedwarf.agent.history import History
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.sessions import Sessions, SessionSettings
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.steering_switch import SteeringSwitch
from whitedwarf.agent.store_opening import open_stateless_store, open_store
from whitedwarf.agent.tool import Tool, Toolbox
from whitedwarf.cli.loading import LoadedModel
from whitedwarf.engine.request import GREEDY
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.prompt.encode import ModelVersion

SHORT = AgentSettings(thinking=QUICK.thinking, system="You help.", max_answer_tokens=12, sampling=GREEDY)


@dataclass
class Asked:
    """Answers questions as told, and remembers them."""

    answers: list[bool] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> bool:
        self.texts.append(text)
        return self.answers.pop(0)


@dataclass
class SavedAgent:
    """Close it, or use it in a `with`: then another one may begin, as after a restart."""

    folder: Path
    answers: tuple[ScriptedAnswer, ...] = ()  # none: the bundled model
    settings: AgentSettings = SHORT
    sessions_settings: SessionSettings = field(default_factory=lambda: SessionSettings("nano", "/work"))
    tools: tuple[Tool, ...] = ()
    policy: Policy = field(default_factory=allowing)
    loaded: LoadedModel = field(default_factory=nano)

    def __post_init__(self) -> None:
        self.tokenizer, self.ear, self.asked = tokens(), Ear(), Asked()
        if self.answers:
            self.settings = QUICK
            self.engine = engine_of(self.tokenizer, *self.answers)
            store = open_stateless_store(self.tokenizer, self.engine.context_length, self.folder)
        else:
            self.engine = self.loaded.engine()
            store = open_store(self.loaded.transformer, self.loaded.gguf, self.tokenizer, folder=self.folder)
        self.dialogue = LocalDialogue(self.engine, self.tokenizer, ModelVersion.V4, self.settings)
        self.sessions = Sessions(store, self.engine, self.dialogue, self.ear, self.sessions_settings)
        self.agent = Agent(self.dialogue, Toolbox.of(*self.tools), self.policy, self.sessions.hear, self.settings)
        self.sessions.attach(self.agent)
        power = None if self.answers else self.engine
        steer = None if self.answers else SteeringSwitch(self.loaded.transformer, self.engine, self.sessions)
        self.commands = Commands(
            self.agent,
            self.sessions,
            History(self.tokenizer),
            self.asked,
            engine=power,
            steer=steer,
            columns=lambda: 100,
        )
        assert self.agent.wait_idle(PATIENCE_S)

    def __enter__(self) -> "SavedAgent":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.agent.close()
        self.sessions.close()
        self.engine.close()

    def says(self, *texts: str) -> None:
        for text in texts:
            self.agent.submit(text)
            assert self.agent.wait_idle(PATIENCE_S)

    def obeys(self, line: str) -> CommandOutcome:
        outcome = self.commands.obey(line)
        assert self.agent.wait_idle(PATIENCE_S)
        return outcome

    @property
    def ids(self) -> list[int]:
        return np.asarray(self.dialogue.ids).tolist()

    def file_names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}
