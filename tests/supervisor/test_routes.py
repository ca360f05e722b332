"""What clients are told of the models: each form read back by a parser of its own (spec/supervisor.md 7.29)."""

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from supervisor.test_config_file import config_of
from whitedwarf.errors import UsageError
from whitedwarf.supervisor.routes import Route, chosen, routes_of
from whitedwarf.supervisor.routes_agents import claude_text, codex_text, opencode_text, pi_text
from whitedwarf.supervisor.routes_dsh import context_window, dsh_text, dsh_warnings
from whitedwarf.supervisor.yaml_text import yaml_text

ODD = [
    "org/name:q4",
    "with space",
    "模型",
    "no",
    "123",
    "- x",
    "a: b # c",
    "q\"uo'te",
    "a\u2028b",
    "emoji 🦔",
    "same",
    "same",
]
ROUTE = Route(
    slug="m",
    key="m",
    alias="m",
    origin="http://127.0.0.1:8080",
    context_size=32_768,
    soft_limit=24_576,
    silence_s=601.5,
    asks_for_key=False,
)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


def odd_routes(folder: Path, **top: Any) -> list[Route]:
    models = [{"name": f"m{index}/{alias}", "path": "m.gguf", "alias": alias} for index, alias in enumerate(ODD)]
    return routes_of(config_of(folder, {"models": models, **top}))


def patch(routes: list[Route], default: Route | None = None, *, is_exact: bool = False) -> dict[str, Any]:
    rows = yaml.safe_load(dsh_text(routes, is_exact=is_exact, is_patch=True, default=default))
    return {row["id"]: row["config"] for row in rows}


def test_dsh_is_told_each_model_at_its_own_port(tmp_path: Path) -> None:
    rows = patch(odd_routes(tmp_path))
    providers = rows["llm-pi-ai"]["providers"]
    assert [provider["models"][0]["id"] for provider in providers.values()] == ODD
    assert [provider["baseURL"] for provider in providers.values()] == [
        f"http://127.0.0.1:{8080 + index}/v1" for index in range(len(ODD))
    ]
    assert all(name.isascii() and " " not in name for name in providers)
    assert [(policy["provider"], policy["model"]) for policy in rows["compaction-basic"]["modelPolicies"]] == list(
        zip(providers, ODD, strict=True)
    )


def test_a_route_has_what_dsh_needs_to_ask_at_all() -> None:
    (provider,) = patch([ROUTE])["llm-pi-ai"]["providers"].values()
    assert provider == {
        "displayName": "m (local)",
        "api": "openai-completions",
        "baseURL": "http://127.0.0.1:8080/v1",
        "headers": {"Authorization": "Bearer local"},
        "compat": {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_tokens"},
        "streamIdleTimeoutMs": 601_500,
        "models": [{"id": "m", "contextWindow": 24_576 * 135 // 100 + 1 + 4096 + 8192}],
    }
    (keyed,) = patch([replace(ROUTE, asks_for_key=True)])["llm-pi-ai"]["providers"].values()
    assert (keyed["apiKeyEnv"], "headers" in keyed) == ("WHITEDWARF_API_KEY", False)


def test_what_is_pasted_is_what_the_patch_has() -> None:
    pasted = yaml.safe_load(dsh_text([ROUTE], is_exact=False, is_patch=False, default=None))
    rows = patch([ROUTE], ROUTE)
    assert pasted == {**rows["llm-pi-ai"], **rows["compaction-basic"]}
    assert rows["agent-default-model"] == {"provider": "local-m", "model": "m"}


def test_at_the_soft_limit_dsh_still_asks_for_a_whole_answer() -> None:
    window = context_window(ROUTE, is_exact=False)
    prose_tokens = ROUTE.soft_limit * 4.5 / 3.5  # as DSH counts English
    assert window - prose_tokens - 4096 >= 4096
    assert context_window(ROUTE, is_exact=True) == 32_768
    assert context_window(replace(ROUTE, soft_limit=0), is_exact=False) == 32_768
    assert context_window(replace(ROUTE, soft_limit=100), is_exact=False) == 32_768


def test_dsh_compacts_by_itself_before_the_soft_limit_refuses() -> None:
    for size in (8192, 32_768, 100_000, 262_144, 1_000_000):
        route = replace(ROUTE, context_size=size, soft_limit=size * 3 // 4)
        (policy,) = patch([route])["compaction-basic"]["modelPolicies"]
        window = context_window(route, is_exact=False)
        threshold = min(0.8 * window, window - policy["headroomTokens"])
        assert 0.8 * route.soft_limit < threshold < route.soft_limit
        assert threshold > 0.16 * window  # else DSH ignores it
    unlimited = replace(ROUTE, soft_limit=0)
    (policy,) = patch([unlimited])["compaction-basic"]["modelPolicies"]
    assert 32_768 - policy["headroomTokens"] == 21_299


def test_the_exact_export_has_no_policy_and_warns_where_dsh_would_be_first() -> None:
    assert "compaction-basic" not in patch([ROUTE], is_exact=True)
    large = replace(ROUTE, context_size=262_144, soft_limit=196_608)
    assert "the soft limit of 196608 is not above 196608" in dsh_warnings([large], is_exact=True)[0]
    assert dsh_warnings([large], is_exact=False) == dsh_warnings([ROUTE], is_exact=True) == []
    assert dsh_warnings([replace(large, soft_limit=196_609)], is_exact=True) == []


def test_a_context_that_nobody_knows_is_left_out_and_told() -> None:
    unknown = replace(ROUTE, context_size=0, soft_limit=0, silence_s=None)
    rows = patch([unknown])
    (provider,) = rows["llm-pi-ai"]["providers"].values()
    assert (provider["models"], "streamIdleTimeoutMs" in provider, list(rows)) == ([{"id": "m"}], False, ["llm-pi-ai"])
    assert "say ctxSize" in dsh_warnings([unknown], is_exact=False)[0]
    assert "CONTEXT" not in claude_text([unknown], unknown, is_exact=False)
    assert "window" not in codex_text([unknown], unknown, is_exact=False)
    for text in (opencode_text([unknown], unknown, is_exact=False), pi_text([unknown], is_exact=False)):
        assert "ontext" not in text


def test_codex_is_told_in_toml(tmp_path: Path) -> None:
    routes = odd_routes(tmp_path)
    for route in routes:
        told = tomllib.loads(codex_text(routes, route, is_exact=False))
        assert (told["model"], told["model_context_window"]) == (route.alias, 24_576)
        provider = told["model_providers"][told["model_provider"]]
        assert provider["base_url"] == route.base_url
        assert provider["stream_idle_timeout_ms"] >= 1_000_000
        assert len(told["model_providers"]) == len(routes)
    assert tomllib.loads(codex_text(routes, routes[0], is_exact=True))["model_context_window"] == 32_768


def test_opencode_and_pi_are_told_in_json(tmp_path: Path) -> None:
    routes = odd_routes(tmp_path)
    opencode = json.loads(opencode_text(routes, routes[2], is_exact=False))
    pi = json.loads(pi_text(routes, is_exact=False))
    assert opencode["model"] == f"local-{routes[2].slug}/模型"
    for route in routes:
        told = opencode["provider"][f"local-{route.slug}"]
        assert told["options"]["baseURL"] == pi["providers"][f"local-{route.slug}"]["baseUrl"] == route.base_url
        assert told["models"][route.alias]["limit"] == {"context": 24_576, "output": 6_144}
        assert [model["id"] for model in pi["providers"][f"local-{route.slug}"]["models"]] == [route.alias]


def test_claude_is_told_in_lines_that_a_shell_takes(tmp_path: Path) -> None:
    routes = odd_routes(tmp_path)
    for route in routes:
        lines = claude_text(routes, route, is_exact=False)
        printed = "printf '%s\\n' \"$ANTHROPIC_MODEL\" $ANTHROPIC_BASE_URL $CLAUDE_CODE_MAX_CONTEXT_TOKENS"
        ran = subprocess.run(
            ["sh", "-eu", "-c", lines + printed], capture_output=True, text=True, check=True, timeout=20
        )
        assert ran.stdout.split("\n")[:3] == [route.alias, route.origin, "24576"]
        assert ran.stderr == ""


def test_a_key_is_never_written_down_but_named(tmp_path: Path) -> None:
    routes = odd_routes(tmp_path, apiKeyFile="keys")
    first = routes[0]
    assert all(route.asks_for_key for route in routes)
    assert tomllib.loads(codex_text(routes, first, is_exact=False))["model_providers"][f"local-{first.slug}"]["env_key"]
    assert "{env:WHITEDWARF_API_KEY}" in opencode_text(routes, first, is_exact=False)
    assert '"apiKey": "WHITEDWARF_API_KEY"' in pi_text(routes, is_exact=False)
    assert 'ANTHROPIC_AUTH_TOKEN="$WHITEDWARF_API_KEY"' in claude_text(routes, first, is_exact=False)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("::1", "http://[::1]:8080"),
        ("10.1.2.3", "http://10.1.2.3:8080"),
        ("box.local", "http://box.local:8080"),
    ],
)
def test_the_address_is_one_that_can_be_reached(tmp_path: Path, host: str, origin: str) -> None:
    assert odd_routes(tmp_path, host=host)[0].origin == origin


def test_a_default_is_found_by_its_name_or_alias(tmp_path: Path) -> None:
    routes = odd_routes(tmp_path)
    assert chosen(routes, None) is chosen(routes, routes[0].key) is chosen(routes, ODD[0]) is routes[0]
    with pytest.raises(UsageError, match="there is no model 'x'; known are m0/org/name:q4, "):
        chosen(routes, "x")


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True))
def test_whatever_models_are_called_their_routes_have_names_of_their_own(
    tmp_path_factory: Any, names: list[str]
) -> None:
    names = [name for name in names if name.strip()] or ["m"]
    models = [{"name": name, "path": "m.gguf"} for name in names]
    routes = routes_of(config_of(tmp_path_factory.mktemp("c"), {"models": models}))
    assert len({route.slug for route in routes}) == len(routes)
    assert [provider["models"][0]["id"] for provider in patch(routes)["llm-pi-ai"]["providers"].values()] == names


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False, width=32) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, min_size=1, max_size=3) | st.dictionaries(st.text(), JSON, min_size=1, max_size=3))
def test_any_value_is_read_back_from_yaml(value: Any) -> None:
    assert yaml.safe_load(yaml_text(value, indent=2)) == value


@pytest.mark.parametrize(
    "text", ["yes", "No", "~", "null", "1e3", "1_000", "0x1F", "2026-11-30", "a:", "=", "<<", " a", ""]
)
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert yaml.safe_load(yaml_text({text: text})) == {text: text}
    assert yaml_text([text]) == f'- "{text}"\n'
