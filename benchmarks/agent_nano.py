"""The agent with the bundled nano, unscripted: does the agent lose calls that nano gets right?

`python benchmarks/agent_nano.py [--tasks 50] [--seed 1] [--own-prompt] [--model FILE]` -> one line of JSON.

Each task is a sentence as in nano's evaluation ("Read X", "Write "…" to Y", "List the files in Z"), in a workspace of
its own. Twice the same question: the agent does the task (`agent`: the call was right and did what it should), and nano
is asked directly, greedily, with the very token ids that the agent had sent (`direct`: the call is right). The two have
to be equal task by task, whatever the weights are: the agent loses none, and helps none.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whitedwarf.agent.approval import NobodyToAsk, Policy, Rule
from whitedwarf.agent.dialogue import Call
from whitedwarf.agent.events import AnswerEnd, AnswerEnded, Event, ToolEnded
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.system_prompt import SHORT_SYSTEM
from whitedwarf.agent.tool import Effect, Toolbox
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.conversation.events import BackendReason, Repair, RepairKind, ToolCallFinished
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

Called = tuple[str, Mapping[str, Json] | None]
CONTEXT = 8192
MAX_TOKENS = 200
PATIENCE_S = 120.0
NOUNS = (
    "teacher",
    "boat",
    "driver",
    "harbor",
    "lemon",
    "turtle",
    "violin",
    "copper",
    "market",
    "tiger",
    "paper",
    "lamp",
)
ENDINGS = (".txt", ".py", ".rs", ".log", ".ini", ".md", ".toml", ".ts")
FOLDERS = ("data", "src", "worker", "sailor", "tree", "docs")
READS = ("Read {0}", "Show me {0}", "What is in {0}?", "Please read {0}", "show the contents of {0}", "print {0}")
WRITES = ('Write "{1}" to {0}', 'Save "{1}" in {0}', 'Make a file {0} containing "{1}"')
LISTS = ("List the files in {0}", "What files are in {0}?", "Show the directory {0}", "list {0}")


@dataclass(frozen=True)
class Task:
    """What is asked for, what has to be there before, and the call that does it."""

    words: str
    call: Call
    files: Mapping[str, str]
    is_thinking: bool


@dataclass(frozen=True)
class Outcome:
    """Of one task: whether the agent did it, and whether nano, asked directly, makes the right call."""

    task: Task
    agent: bool
    direct: bool


def tasks(count: int, seed: int) -> list[Task]:
    """As many of each kind, in turns."""
    rng = random.Random(seed)
    kinds = (_read, _write, _list)
    return [kinds[number % len(kinds)](rng, number % 2 == 1) for number in range(count)]


def _name(rng: random.Random) -> str:
    folder = f"{rng.choice(FOLDERS)}/" if rng.random() < 0.5 else ""
    return f"{folder}{rng.choice(NOUNS)}{rng.choice(ENDINGS)}"


def _phrase(rng: random.Random) -> str:
    return " ".join(rng.sample(NOUNS, rng.randint(1, 3)))


def _read(rng: random.Random, is_thinking: bool) -> Task:
    name = _name(rng)
    files = {name: _phrase(rng) + "\n"}
    return Task(rng.choice(READS).format(name), Call("read", {"path": name}), files, is_thinking)


def _write(rng: random.Random, is_thinking: bool) -> Task:
    name, text = _name(rng), _phrase(rng)
    call = Call("write", {"path": name, "content": text})
    return Task(rng.choice(WRITES).format(name, text), call, {}, is_thinking)


def _list(rng: random.Random, is_thinking: bool) -> Task:
    folder = rng.choice(FOLDERS)
    files = {f"{folder}/{rng.choice(NOUNS)}{ending}": "" for ending in rng.sample(ENDINGS, 3)}
    return Task(rng.choice(LISTS).format(folder), Call("list", {"path": folder}), files, is_thinking)


@dataclass
class Recording:
    """An engine that remembers what the agent asked it; all else is the engine's."""

    engine: Engine
    asked: list[list[int]] = field(default_factory=list)

    def submit(self, ids: Sequence[int], options: GenerateOptions | None = None, **more: Any) -> Any:
        """As the engine's."""
        self.asked.append([int(token) for token in ids])
        return self.engine.submit(ids, options, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class Trial:
    """One model, asked task by task."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine, *, has_own_prompt: bool = False) -> None:
        """With the agent's whole prompt and all its tools, or only with the tool that is needed and the official words
        about tools, as nano was trained."""
        self._tokenizer = tokenizer
        self._engine = engine
        self._has_own_prompt = has_own_prompt

    def run(self, task: Task) -> Outcome:
        """Both ways."""
        with tempfile.TemporaryDirectory(prefix="agent-nano-") as folder:
            root = Path(folder)
            for name, text in task.files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            events, prompt = self._ask_agent(task, root)
            is_done = _first_calls(events) == [_as_called(task.call)] and _is_done(root, task, events)
        return Outcome(task, is_done, self.ask_directly(prompt, task))

    def _ask_agent(self, task: Task, root: Path) -> tuple[list[Event], list[int]]:
        """What happened up to the first tool's result, and what the model was asked at first."""
        thinking = Thinking.HIGH if task.is_thinking else Thinking.NONE
        settings = AgentSettings(thinking, MAX_TOKENS, GREEDY)
        toolbox = standard_tools(Workspace(root))
        if not self._has_own_prompt:
            settings = replace(settings, system=SHORT_SYSTEM, tells_date=False)
            toolbox = Toolbox.of(toolbox.tools[task.call.name])
        engine, events = Recording(self._engine), list[Event]()

        def listen(event: Event) -> None:
            events.append(event)
            if isinstance(event, ToolEnded):
                agent.interrupt()

        dialogue = LocalDialogue(engine, self._tokenizer, ModelVersion.V4, settings)
        policy = Policy(NobodyToAsk(), dict.fromkeys(Effect, Rule.AUTO))
        agent = Agent(dialogue, toolbox, policy, listen, settings)
        try:
            agent.submit(task.words)
            assert agent.wait_idle(PATIENCE_S)
        finally:
            agent.close()
        return events, engine.asked[0]

    def ask_directly(self, prompt: Sequence[int], task: Task) -> bool:
        """Greedily, without anything that steers; read as the agent reads."""
        eos = self._tokenizer.special_id(SpecialToken.EOS)
        options = GenerateOptions(max_tokens=MAX_TOKENS, sampling=GREEDY, stop_ids=frozenset({eos}))
        answer = self._engine.submit(prompt, options).result(PATIENCE_S)
        start = ParseStart.REASONING if task.is_thinking else ParseStart.CONTENT
        parser = OutputParser(ParseOptions(start=start), self._tokenizer)
        is_meant = answer.finished.reason is FinishReason.STOP
        reason = BackendReason.STOP if is_meant else BackendReason.LENGTH
        events = [*parser.feed_ids([token.id for token in answer.tokens]), *parser.finish(reason)]
        if any(isinstance(event, Repair) and event.kind is RepairKind.CALL_IN_REASONING for event in events):
            return False
        return _calls(events) == [_as_called(task.call)]


def _first_calls(events: Sequence[Event]) -> list[Called]:
    """Of the first answer; none where it did not count."""
    ends = [index for index, event in enumerate(events) if isinstance(event, AnswerEnded)]
    if not ends or not isinstance(end := events[ends[0]], AnswerEnded) or end.end is not AnswerEnd.CALLS:
        return []
    return _calls(events[: ends[0]])


def _calls(events: Sequence[object]) -> list[Called]:
    return [(event.name, parse_arguments(event.arguments)) for event in events if isinstance(event, ToolCallFinished)]


def _as_called(call: Call) -> Called:
    return call.name, dict(call.arguments)


def _is_done(root: Path, task: Task, events: Sequence[Event]) -> bool:
    """Whether the call did what it should."""
    result = next(event for event in events if isinstance(event, ToolEnded))
    if task.call.name == "write":
        path, content = (str(task.call.arguments[name]) for name in ("path", "content"))
        return (root / path).read_text(encoding="utf-8") == content
    shown = [Path(name).name if task.call.name == "list" else text.strip() for name, text in task.files.items()]
    return not result.is_error and all(one in result.text for one in shown)


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--own-prompt", action="store_true", help="with the agent's whole prompt and all tools")
    parser.add_argument("--model", default=str(bundled_model()))
    given = parser.parse_args(arguments)
    loaded = open_model(ModelSettings(model=given.model, context=CONTEXT))
    with loaded.engine() as engine:
        trial = Trial(loaded.tokenizer(), engine, has_own_prompt=given.own_prompt)
        outcomes = [trial.run(task) for task in tasks(given.tasks, given.seed)]
    print(json.dumps(summary(outcomes)))


def summary(outcomes: Sequence[Outcome]) -> dict[str, Json]:
    """Rates, and where the two differ."""
    count = len(outcomes)
    return {
        "tasks": count,
        "agent_rate": round(sum(one.agent for one in outcomes) / count, 4),
        "direct_rate": round(sum(one.direct for one in outcomes) / count, 4),
        "different": [one.task.words for one in outcomes if one.agent is not one.direct],
        "failed": [one.task.words for one in outcomes if not one.agent],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
