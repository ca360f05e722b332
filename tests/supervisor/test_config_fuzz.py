"""Whatever stands in a config, it is read or refused in words; and what is read can be told, run and exported."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.checks import warnings_of
from whitedwarf.supervisor.config_file import FIELDS, read_config
from whitedwarf.supervisor.dump import dumped
from whitedwarf.supervisor.entries import DEFAULT_FIELDS, ENTRY_FIELDS
from whitedwarf.supervisor.routes import routes_of
from whitedwarf.supervisor.routes_dsh import dsh_text

WORDS = [
    "",
    "a",
    "~",
    "/",
    "m.gguf",
    "-c",
    "0",
    "20 GB",
    "auto",
    "wait",
    "llama-server",
    "whitedwarf",
    "http://[",
    "\x00",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 70) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["bin", "args", "A"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def members(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), VALUES, max_size=3)


ENTRIES = st.builds(
    lambda name, place, more: {"name": name, **place, **more},
    st.sampled_from(["a", "b", "c", "d/e"]),
    st.sampled_from([{"path": "m.gguf"}, {"url": "http://127.0.0.1:1/v1"}, {"path": "~x/m.gguf"}]),
    members(*(name for name in ENTRY_FIELDS if name not in ("name", "path", "url"))) | st.just({}),
)
CONFIGS = st.builds(
    lambda models, top, defaults: {"models": models, **top, **({"defaults": defaults} if defaults else {})},
    st.lists(ENTRIES, min_size=1, max_size=4, unique_by=lambda entry: str(entry["name"])),
    members(*(name for name in FIELDS if name not in ("models", "defaults"))) | st.just({}),
    members(*DEFAULT_FIELDS) | st.just({}),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(CONFIGS)
def test_a_config_is_read_or_refused_in_words(tmp_path: Path, content: dict[str, Any]) -> None:
    path = tmp_path / "models.json"
    path.write_text(json.dumps(content))
    try:
        config = read_config(path, {"XDG_STATE_HOME": "/state"})
    except UsageError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017
        return
    assert read_config(path, {"XDG_STATE_HOME": "/state"}) == config
    told = dumped(config)
    assert json.loads(json.dumps(told)) == told
    assert all(line.isprintable() for line in warnings_of(config))
    assert dsh_text(routes_of(config), is_exact=False, is_patch=True, default=None)


@pytest.mark.parametrize("name", ["models.json", "models.toml"])
@given(content=st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused_in_words(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match="models"):
        read_config(path, {})
