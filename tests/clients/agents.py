"""The real agents, each as docs/clients.md tells people to set it up; and those that speak another interface.

What is known here and not there: how each one's tool is called, for the script that plays the model.
"""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from clients.guide import PRINTED_ADDRESS, packages, sections, with_prompt
from fakes.scripted_server import calls

PATIENCE_S = 60.0
"""For anything that a client does, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Agent:
    """`swaps` are what the document tells to write in its blocks for this interface: old text and new text.

    `extra` are further arguments of the tool that runs a command in `argument`.
    """

    name: str
    title: str
    tool: str
    argument: str
    extra: tuple[tuple[str, object], ...] = ()
    swaps: tuple[tuple[str, str], ...] = ()

    @property
    def program(self) -> str:
        return self.name.split("-")[0]

    @property
    def package(self) -> str:
        return packages()[self.title]

    def binaries(self, clients: Path) -> Path:
        return clients / self.program / "node_modules" / ".bin"

    def is_installed(self, clients: Path) -> bool:
        return (self.binaries(clients) / self.program).exists()

    def call(self, command: str) -> str:
        """The model's own text for running a shell command."""
        return calls(self.tool, **{self.argument: command}, **dict(self.extra))


@dataclass(frozen=True, slots=True)
class Home:
    """An agent's home folder and the folder it works in, set up for a server; nothing of the machine's own settings."""

    agent: Agent
    clients: Path
    home: Path
    work: Path
    script: str

    def start(self, prompt: str, words: str = '"$PROMPT"') -> "subprocess.Popen[str]":
        """Begin a run; `words` stand where the document has its prompt. It leads a process group of its own."""
        return subprocess.Popen(
            ["bash", "-c", with_prompt(self.script, words)],
            cwd=self.work,
            env=self.environment | {"PROMPT": prompt},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_listen_to_interrupts,
        )

    def run(self, prompt: str, words: str = '"$PROMPT"') -> str:
        """A whole run -> what it printed; it must succeed."""
        with self.start(prompt, words) as process:
            return ended(process)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.agent.binaries(self.clients)}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.home), "TERM": "xterm-256color", "LANG": "C.UTF-8"}


def settle(agent: Agent, clients: Path, folder: Path, url: str, *swaps: tuple[str, str]) -> Home:
    """Write the document's files for this agent below `folder`; `swaps` are a test's own."""
    section = sections()[agent.title]
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    unused = {old for old, _ in (*agent.swaps, *swaps)}

    def changed(text: str) -> str:
        for old, new in (*agent.swaps, *swaps):
            if old in text:
                unused.discard(old)
                text = text.replace(old, new)
        return text

    for path, block in section.files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(changed(block.text).replace(PRINTED_ADDRESS, url))
    (script,) = section.scripts
    text = changed(script.text).replace(PRINTED_ADDRESS, url)
    assert not unused, f"docs/clients.md has no {unused} for {agent.title}"
    return Home(agent, clients, home, work, text)


def ended(process: "subprocess.Popen[str]") -> str:
    """Wait for a run -> what it printed; it must succeed."""
    try:
        printed, complaints = process.communicate(timeout=PATIENCE_S)
    finally:
        stop(process)
    assert process.returncode == 0, f"{printed[-2000:]}\n{complaints[-2000:]}"
    return printed


def stop(process: "subprocess.Popen[str]") -> None:
    """End a run and all it has started, if it has not ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _listen_to_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background would pass on that it is ignored


_PATIENT = (("timeout", 30_000),)
_DESCRIBED = (("description", "Prove it"), *_PATIENT)

# A command whose server is started anew must not be handed back half done.
CODEX = Agent("codex", "Codex", "exec_command", "cmd", (("yield_time_ms", 30_000),))
CLAUDE = Agent("claude", "Claude Code", "Bash", "command", _DESCRIBED)
OPENCODE = Agent("opencode", "opencode", "bash", "command", _DESCRIBED)
OPENCODE_RESPONSES = Agent(
    "opencode-responses",
    "opencode",
    "bash",
    "command",
    _DESCRIBED,
    (('"npm": "@ai-sdk/openai-compatible"', '"npm": "@ai-sdk/openai"'),),
)
OPENCODE_ANTHROPIC = Agent(
    "opencode-anthropic",
    "opencode",
    "bash",
    "command",
    _DESCRIBED,
    (('"npm": "@ai-sdk/openai-compatible"', '"npm": "@ai-sdk/anthropic"'),),
)
PI = Agent("pi", "pi", "bash", "command", _PATIENT)
PI_RESPONSES = Agent(
    "pi-responses",
    "pi",
    "bash",
    "command",
    _PATIENT,
    (('"api": "openai-completions"', '"api": "openai-responses"'),),
)
PI_ANTHROPIC = Agent(
    "pi-anthropic",
    "pi",
    "bash",
    "command",
    _PATIENT,
    swaps=(
        ('"api": "openai-completions"', '"api": "anthropic-messages"'),
        ('"baseUrl": "http://127.0.0.1:8000/v1"', '"baseUrl": "http://127.0.0.1:8000"'),
    ),
)

AGENTS = (CODEX, CLAUDE, OPENCODE, PI)
VARIANTS = (OPENCODE_RESPONSES, OPENCODE_ANTHROPIC, PI_RESPONSES, PI_ANTHROPIC)
ALL = (*AGENTS, *VARIANTS)
INSTALLED_BY_DEFAULT = ("pi", "codex")
