"""Four real agent clients, how each is installed and told of a server on loopback. Facts: clients.md 1 and 2."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MODEL_NAME = "deepseek-v4-flash"
CONTEXT_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class Agent:
    """An npm package, its program, the tool by which it runs commands, and what it needs beside its command line."""

    name: str
    package: str
    tool: str
    argument: str
    configure: Callable[[Path, str], dict[str, str]]  # the home to write into, the server's address -> environment
    flags: tuple[str, ...]

    def program(self, clients: Path) -> Path:
        return clients / self.name / "node_modules" / ".bin" / self.name

    def command(self, clients: Path, prompt: str) -> list[str]:
        return [str(self.program(clients)), *self.flags, prompt]


def environment(home: Path, settings: dict[str, str]) -> dict[str, str]:
    """Nothing of the machine's own settings but the path."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"} | settings


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex" / "config.toml",
        f"""model = "{MODEL_NAME}"
model_provider = "whitedwarf"
model_context_window = {CONTEXT_LENGTH}
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
unbounded_connection_retries = false
[model_providers.whitedwarf]
name = "whitedwarf"
base_url = "{url}/v1"
wire_api = "responses"
stream_idle_timeout_ms = 1000000
""",
    )
    return {}


def _claude(home: Path, url: str) -> dict[str, str]:
    names = ("MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL", "DEFAULT_OPUS_MODEL")
    return {f"ANTHROPIC_{name}": MODEL_NAME for name in names} | {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "local",
        "CLAUDE_CODE_SUBAGENT_MODEL": MODEL_NAME,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "600000",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(CONTEXT_LENGTH),
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "IS_SANDBOX": "1",
    }


def _opencode(home: Path, url: str) -> dict[str, str]:
    limit = {"context": CONTEXT_LENGTH, "output": 32_000}
    provider = {
        "name": "whitedwarf",
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "local", "headerTimeout": False, "chunkTimeout": False},
        "models": {MODEL_NAME: {"name": MODEL_NAME, "limit": limit}},
    }
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"whitedwarf": provider},
        "agent": {"title": {"disable": True}},
    }
    _write(home / ".config" / "opencode" / "opencode.json", json.dumps(settings))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_registry": "http://127.0.0.1:9/",
    }


def _pi(home: Path, url: str) -> dict[str, str]:
    model = {
        "id": MODEL_NAME,
        "name": MODEL_NAME,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": CONTEXT_LENGTH,
        "maxTokens": 32_000,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    compat = {
        "supportsStore": False,
        "supportsDeveloperRole": False,
        "supportsReasoningEffort": True,
        "supportsUsageInStreaming": True,
        "maxTokensField": "max_tokens",
        "supportsStrictMode": False,
        "thinkingFormat": "deepseek",
        "requiresReasoningContentOnAssistantMessages": True,
    }
    provider = {
        "name": "whitedwarf",
        "baseUrl": f"{url}/v1",
        "api": "openai-completions",
        "apiKey": "local",
        "models": [model],
        "compat": compat,
    }
    folder = home / ".pi" / "agent"
    _write(folder / "models.json", json.dumps({"providers": {"whitedwarf": provider}}))
    _write(folder / "settings.json", json.dumps({"defaultProvider": "whitedwarf", "defaultModel": MODEL_NAME}))
    return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


CODEX = Agent(
    "codex",
    "@openai/codex@0.171.0",
    "exec_command",
    "cmd",
    _codex,
    ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
)
CLAUDE = Agent(
    "claude",
    "@anthropic-ai/claude-code@2.1.332",
    "Bash",
    "command",
    _claude,
    ("--dangerously-skip-permissions", "-p"),
)
OPENCODE = Agent(
    "opencode",
    "opencode-ai@1.18.33",
    "bash",
    "command",
    _opencode,
    ("run", "-m", f"whitedwarf/{MODEL_NAME}"),
)
PI = Agent("pi", "@mariozechner/pi-coding-agent@0.73.1", "bash", "command", _pi, ("-p",))
