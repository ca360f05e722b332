"""Models as routes of DeepSeek Harness (spec/supervisor.md 2.16, 2.17, 3.2, 3.6).

DSH asks for `contextWindow − characters / 3.5 − 4096` tokens of answer, at least one. A window of the model's true size
would leave one token long before the prompt is too long, so a larger one is declared; servers stop at the real end.
"""

from collections.abc import Sequence

from whitedwarf.supervisor.jsonc import Json
from whitedwarf.supervisor.policy import declared_window, dsh_threshold
from whitedwarf.supervisor.routes import KEY_VARIABLE, Route
from whitedwarf.supervisor.yaml_text import yaml_text

_PROACTIVE_SHARE = 0.85  # of the soft limit: compaction begins before anything is refused
_UNLIMITED_SHARE = 0.65  # of the context, where no soft limit leaves room for the summary
_MOST_SUMMARY = 4096
_COMPAT: dict[str, Json] = {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_tokens"}
_LEAST_IDLE_S = 300.0


def dsh_text(routes: Sequence[Route], *, is_exact: bool, is_patch: bool, default: Route | None) -> str:
    """A whole patch file, or the fragments to paste into one's own."""
    providers: dict[str, Json] = {provider_name(route): _provider(route, is_exact=is_exact) for route in routes}
    policies = [] if is_exact else [_policy(route) for route in routes if route.context_size]
    if is_patch:
        return _patch(providers, policies, default)
    text = '# Paste under "- id: llm-pi-ai", "  config:".\n' + yaml_text({"providers": providers}, indent=4)
    if policies:
        text += '# Paste under "- id: compaction-basic", "  config:".\n'
        text += yaml_text({"modelPolicies": list[Json](policies)}, indent=4)
    return text


def provider_name(route: Route) -> str:
    """The route's id in DSH."""
    return f"local-{route.slug}"


def context_window(route: Route, *, is_exact: bool) -> int:
    """What DSH is told; 0 where nobody knows."""
    if is_exact or not route.soft_limit:
        return route.context_size
    return declared_window(route.soft_limit, route.context_size)


def dsh_warnings(routes: Sequence[Route], *, is_exact: bool) -> list[str]:
    """What will not go well, one line each."""
    lines = []
    for route in routes:
        window = context_window(route, is_exact=is_exact)
        threshold = dsh_threshold(window)
        if not window:
            lines.append(f"{route.key}: its context is unknown, and DSH takes 262144 tokens; say ctxSize in the config")
        elif is_exact and threshold is not None and 0 < route.soft_limit <= threshold:
            lines.append(
                f"{route.key}: the soft limit of {route.soft_limit} is not above {threshold}, where DSH compacts by "
                "itself: its summaries would be refused; raise softContextLimit, or leave out --exact"
            )
    return lines


def _provider(route: Route, *, is_exact: bool) -> Json:
    window = context_window(route, is_exact=is_exact)
    size: dict[str, Json] = {"contextWindow": window} if window else {}
    return {
        "displayName": f"{route.key} (local)",
        "api": "openai-completions",
        "baseURL": route.base_url,
        **_key(route),
        "compat": dict(_COMPAT),
        **_patience(route),
        "models": [{"id": route.alias, **size}],
    }


def _key(route: Route) -> dict[str, Json]:
    """Without one DSH does not even ask."""
    return {"apiKeyEnv": KEY_VARIABLE} if route.asks_for_key else {"headers": {"Authorization": "Bearer local"}}


def _patience(route: Route) -> dict[str, Json]:
    if route.silence_s is None or route.silence_s <= _LEAST_IDLE_S:
        return {}
    return {"streamIdleTimeoutMs": round(route.silence_s * 1000)}


def _policy(route: Route) -> Json:
    share = _PROACTIVE_SHARE * route.soft_limit if route.soft_limit else _UNLIMITED_SHARE * route.context_size
    return {
        "provider": provider_name(route),
        "model": route.alias,
        "headroomTokens": context_window(route, is_exact=False) - int(share),
        "maxTokens": min(_MOST_SUMMARY, max(256, route.context_size // 8)),
    }


def _patch(providers: dict[str, Json], policies: list[Json], default: Route | None) -> str:
    rows: list[Json] = [{"id": "llm-pi-ai", "config": {"providers": providers}}]
    if policies:
        rows.append({"id": "compaction-basic", "config": {"modelPolicies": policies}})
    if default is not None:
        rows.append(
            {"id": "agent-default-model", "config": {"provider": provider_name(default), "model": default.alias}}
        )
    head = (
        "# For `dsh --patch FILE`. A patch replaces the whole config of its row: providers that another patch gives\n"
    )
    return f"{head}# to llm-pi-ai are not there beside these.\n{yaml_text(rows)}"
