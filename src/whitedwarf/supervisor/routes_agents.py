"""Models as opencode, pi, Codex and Claude Code want to be told of them (docs/clients.md, spec/clients.md).

Pure: texts to paste. A context that is unknown is left to the client's own guess.
"""

import json
import shlex
from collections.abc import Sequence

from whitedwarf.supervisor.jsonc import Json
from whitedwarf.supervisor.routes import KEY_VARIABLE, Route, answer_limit, told_context

_SILENCE_MS = 1_000_000  # of a server that is not ours to start
_PI_COMPAT: dict[str, Json] = {
    "supportsStore": False,
    "supportsDeveloperRole": False,
    "supportsUsageInStreaming": True,
    "maxTokensField": "max_tokens",
    "supportsStrictMode": False,
}
_PI_THINKING: dict[str, Json] = {
    "supportsReasoningEffort": True,
    "thinkingFormat": "deepseek",
    "requiresReasoningContentOnAssistantMessages": True,
}


def opencode_text(routes: Sequence[Route], default: Route, *, is_exact: bool) -> str:
    """`opencode.json`: a provider for each model, since each has an address of its own."""
    providers: dict[str, Json] = {}
    for route in routes:
        key = f"{{env:{KEY_VARIABLE}}}" if route.asks_for_key else "local"
        options: dict[str, Json] = {"baseURL": route.base_url, "apiKey": key}
        context = told_context(route, is_exact=is_exact)
        limit: dict[str, Json] = {"limit": {"context": context, "output": answer_limit(context)}} if context else {}
        providers[_provider(route)] = {
            "name": f"{route.key} (local)",
            "npm": "@ai-sdk/openai-compatible",
            "options": {**options, "headerTimeout": False, "chunkTimeout": False},
            "models": {route.alias: {"name": route.key, **_thinking(route), **limit}},
        }
    model = f"{_provider(default)}/{default.alias}"
    return _json({"$schema": "https://opencode.ai/config.json", "provider": providers, "model": model})


def pi_text(routes: Sequence[Route], *, is_exact: bool) -> str:
    """`~/.pi/agent/models.json`."""
    providers: dict[str, Json] = {}
    for route in routes:
        context = told_context(route, is_exact=is_exact)
        size: dict[str, Json] = {"contextWindow": context, "maxTokens": answer_limit(context)} if context else {}
        free: dict[str, Json] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model: dict[str, Json] = {
            "id": route.alias,
            "name": route.key,
            **_thinking(route),
            "input": ["text"],
            **size,
            "cost": free,
        }
        providers[_provider(route)] = {
            "name": f"{route.key} (local)",
            "baseUrl": route.base_url,
            "api": "openai-completions",
            "apiKey": KEY_VARIABLE if route.asks_for_key else "local",
            "models": [model],
            "compat": {**_PI_COMPAT, **(_PI_THINKING if route.is_our_engine else {})},
        }
    return _json({"providers": providers})


def codex_text(routes: Sequence[Route], default: Route, *, is_exact: bool) -> str:
    """`~/.codex/config.toml`: what comes first names the model to use, tables follow for all."""
    lines = [f"{name} = {value}" for name, value in _codex_choice(default, is_exact=is_exact).items()]
    for route in routes:
        if route is not default:
            words = " ".join(
                f"-c {shlex.quote(f'{name}={value}')}"
                for name, value in _codex_choice(route, is_exact=is_exact).items()
            )
            lines.append(f"# {_comment(route.key)}: codex {_comment(words)}")
    for route in routes:
        lines += [
            f"[model_providers.{_provider(route)}]",
            f"name = {_toml(f'{route.key} (local)')}",
            f"base_url = {_toml(route.base_url)}",
            'wire_api = "responses"',
            f"stream_idle_timeout_ms = {_silence_ms(route)}",
            *([f'env_key = "{KEY_VARIABLE}"'] if route.asks_for_key else []),
        ]
    return "\n".join(lines) + "\n"


def claude_text(routes: Sequence[Route], default: Route, *, is_exact: bool) -> str:
    """Lines for a shell: one model's, and those of the others as comments."""
    blocks = []
    for route in (default, *(route for route in routes if route is not default)):
        lines = _claude_lines(route, is_exact=is_exact)
        sign = "" if route is default else "# "
        blocks.append("\n".join([f"# {_comment(route.key)}", *(f"{sign}{line}" for line in lines)]))
    return "\n\n".join(blocks) + "\n"


def _claude_lines(route: Route, *, is_exact: bool) -> list[str]:
    model = shlex.quote(route.alias)
    key = f'"${KEY_VARIABLE}"' if route.asks_for_key else "local"
    context = told_context(route, is_exact=is_exact)
    names = ("MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL", "DEFAULT_OPUS_MODEL")
    return [
        f"export ANTHROPIC_BASE_URL={route.origin} ANTHROPIC_AUTH_TOKEN={key}",
        *(f"export ANTHROPIC_{name}={model}" for name in names),
        f"export CLAUDE_CODE_SUBAGENT_MODEL={model}",
        *([f"export CLAUDE_CODE_MAX_CONTEXT_TOKENS={context}"] if context else []),
        f"export CLAUDE_STREAM_IDLE_TIMEOUT_MS={_silence_ms(route)}",
        "export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK=1",
    ]


def _codex_choice(route: Route, *, is_exact: bool) -> dict[str, str]:
    context = told_context(route, is_exact=is_exact)
    size = {"model_context_window": str(context)} if context else {}
    return {"model": _toml(route.alias), "model_provider": _toml(_provider(route)), **size}


def _thinking(route: Route) -> dict[str, Json]:
    return {"reasoning": True} if route.is_our_engine else {}


def _provider(route: Route) -> str:
    return f"local-{route.slug}"


def _silence_ms(route: Route) -> int:
    return _SILENCE_MS if route.silence_s is None else max(_SILENCE_MS, round(route.silence_s * 1000))


def _toml(text: str) -> str:
    """A basic string: JSON's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
