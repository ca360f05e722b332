"""What people write becomes a config in which everything is decided; what is wrong is told with its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import Backend, ExternalModel, ManagedModel, SupervisorConfig, SwapPolicy
from whitedwarf.supervisor.config_file import FIELDS, read_config
from whitedwarf.supervisor.config_table import snake_case
from whitedwarf.supervisor.dump import dumped
from whitedwarf.supervisor.entries import DEFAULT_FIELDS, ENTRY_FIELDS
from whitedwarf.supervisor.sizes import files_bytes, size_of

STATE = {"XDG_STATE_HOME": "/state"}

SEED = """
{
  // The seed's README, pasted.
  "idleTimeoutSec": 400, "checkIntervalSec": 5, "startTimeoutSec": 300, "stopGraceSec": 20,
  "softGraceSec": 180, "startSettleSec": 1.5,
  "ports": { "publicBase": 8080, "internalBase": 9080 },
  "defaults": { "ctxSize": 32768, "cacheTypeK": "q8_0", "cacheTypeV": "q4_0", "softContextRatio": 0.75 },
  "llamaServer": { "bin": "/opt/llama/llama-server", "args": ["-ngl", "99", "--jinja"] },
  "models": [
    { "name": "coder", "path": "/models/coder.gguf", "mtp": true },
    { "name": "ollama", "url": "http://127.0.0.1:11434/v1" }, /* somebody else's */
  ],
}
"""
OLD = """
{
  "common": { "bin": "llama-server" },
  "models": [
    { "key": "a", "publicPort": 8080, "internalPort": 9080, "model": "a.gguf",
      "args": ["-m", "a.gguf", "-c", "16384", "--alias", "qwen"] }
  ]
}
"""
TOML = """
idle_timeout_sec = 400
memory_budget = "20 GB"
allow_hosts = ["box.local"]

[defaults]
ctx_size = 65536
softContextRatio = 0.5

[[models]]
name = "flash"
path = "flash.gguf"
keeps_state = false
env = { CUDA_VISIBLE_DEVICES = 0 }

[[models]]
name = "far"
url = "https://far.example/llm/"
api_key_env = "FAR_KEY"
"""


A_MODEL = '\n[[models]]\nname = "m"\npath = "x"'


def config_of(folder: Path, content: object, name: str = "models.json") -> SupervisorConfig:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_config(path, STATE)


def one(folder: Path, entry: dict[str, Any], **top: Any) -> Any:
    return config_of(folder, {"models": [{"name": "m", **entry}], **top}).models[0]


def told(folder: Path, content: object, name: str = "models.json") -> str:
    with pytest.raises(UsageError) as error:
        config_of(folder, content, name)
    assert str(error.value).startswith(f"{folder / name}: ")
    return str(error.value).removeprefix(f"{folder / name}: ")


def test_the_seeds_config_keeps_running_llama_server(tmp_path: Path) -> None:
    coder, ollama = config_of(tmp_path, SEED).models
    assert isinstance(coder, ManagedModel)
    assert isinstance(ollama, ExternalModel)
    assert (coder.backend, coder.alias, coder.idle_timeout_s) == (Backend.LLAMA_SERVER, "coder", 400)
    assert (coder.context_size, coder.soft_context_limit, coder.settle_s) == (32_768, 24_576, 1.5)
    assert (coder.public_port, coder.internal_port, ollama.public_port) == (8080, 9080, 8081)
    assert coder.program == ("/opt/llama/llama-server",)
    generated = "-m /models/coder.gguf -c 32768 --cache-type-k q8_0 --cache-type-v q4_0 --spec-type draft-mtp"
    assert coder.arguments == ("-ngl", "99", "--jinja", *generated.split(" "))
    assert (ollama.url, ollama.soft_context_limit) == ("http://127.0.0.1:11434/v1", 0)


def test_old_explicit_entries_keep_working(tmp_path: Path) -> None:
    (model,) = config_of(tmp_path, OLD).models
    assert isinstance(model, ManagedModel)
    assert (model.key, model.alias, model.path) == ("a", "qwen", tmp_path / "a.gguf")
    assert (model.context_size, model.soft_context_limit) == (16_384, 12_288)
    assert model.arguments == ("-m", "a.gguf", "-c", "16384", "--alias", "qwen")


def test_toml_is_written_in_its_own_spelling(tmp_path: Path) -> None:
    config = config_of(tmp_path, TOML, "models.toml")
    flash, far = config.models
    assert isinstance(flash, ManagedModel)
    assert isinstance(far, ExternalModel)
    assert (config.memory_budget_bytes, config.allowed_hosts) == (20_000_000_000, ("box.local",))
    assert (flash.backend, flash.idle_timeout_s, flash.keeps_state) == (Backend.WHITEDWARF, 400, False)
    assert (flash.context_size, flash.soft_context_limit) == (65_536, 32_768)
    assert flash.environment == (("CUDA_VISIBLE_DEVICES", "0"),)
    assert flash.arguments == ("-m", str(tmp_path / "flash.gguf"), "--ctx", "65536")
    assert (far.url, far.api_key_variable) == ("https://far.example/llm/", "FAR_KEY")


def test_everything_has_a_default(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"models": [{"name": "m", "path": "m.gguf"}]})
    (model,) = config.managed
    assert (config.host, config.swap_policy, config.memory_budget_bytes) == ("127.0.0.1", SwapPolicy.WAIT, None)
    assert (config.has_automatic_budget, config.tells_loading, config.early_headers_after_s) == (False, False, 30)
    assert config.state_folder.is_relative_to("/state/whitedwarf/supervisor")
    assert config.log_folder == config.state_folder / "logs"
    assert (model.backend, model.max_waiting, model.keeps_state) == (Backend.WHITEDWARF, 64, True)
    assert (model.is_pinned, model.is_preloaded, model.group, model.memory_bytes) == (False, False, None, 0)
    assert (model.start_timeout_s, model.settle_s, model.stop_grace_s, model.soft_grace_s) == (300, 0, 20, 180)
    assert "--ctx" not in model.arguments  # the engine knows better where nobody asked


def test_two_configs_never_share_a_state_folder(tmp_path: Path) -> None:
    models = {"models": [{"name": "m", "path": "m.gguf"}]}
    first, second = config_of(tmp_path, models, "a.json"), config_of(tmp_path, models, "a.toml.json")
    assert first.state_folder != second.state_folder


def test_an_entry_overrules_the_defaults_and_they_the_top(tmp_path: Path) -> None:
    top = {"idleTimeoutSec": 1, "stopGraceSec": 2, "defaults": {"idleTimeoutSec": 3, "maxWaiting": 4}}
    model = one(tmp_path, {"path": "m.gguf", "idleTimeoutSec": 5}, **top)
    other = one(tmp_path, {"path": "m.gguf"}, **top)
    assert (model.idle_timeout_s, other.idle_timeout_s, other.stop_grace_s, other.max_waiting) == (5, 3, 2, 4)


def test_the_backend_is_what_the_nearest_says(tmp_path: Path) -> None:
    entry = {"path": "m.gguf"}
    assert one(tmp_path, entry).backend is Backend.WHITEDWARF
    assert one(tmp_path, entry, llamaServer={}).backend is Backend.LLAMA_SERVER
    assert one(tmp_path, entry, llamaServer={}, backend="whitedwarf").backend is Backend.WHITEDWARF
    assert one(tmp_path, entry, defaults={"backend": "llama-server"}).backend is Backend.LLAMA_SERVER
    assert one(tmp_path, {**entry, "backend": "whitedwarf"}, llamaServer={}).backend is Backend.WHITEDWARF


def test_paths_start_where_the_config_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    top = {"stateDir": "state", "apiKeyFile": "~/keys", "llamaServer": {"bin": "./bin/llama-server"}}
    config = config_of(tmp_path, {"models": [{"name": "m", "path": "ä b/m.gguf"}], **top})
    (model,) = config.managed
    assert config.state_folder == tmp_path / "state"
    assert config.api_key_file == Path("/home/ann/keys")
    assert model.path == tmp_path / "ä b/m.gguf"
    assert model.program == (str(tmp_path / "bin/llama-server"),)


def test_a_config_that_powershell_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    for encoding in ("utf-16", "utf-8-sig"):
        path.write_text('{"models": [{"name": "模型", "path": "m.gguf"}]}', encoding=encoding)
        assert read_config(path, STATE).models[0].key == "模型"


def test_a_budget_may_be_measured(tmp_path: Path) -> None:
    models = [{"name": "m", "path": "m.gguf", "memory": "8 GiB", "pinned": True, "group": "day", "preload": True}]
    config = config_of(tmp_path, {"models": models, "memoryBudget": "auto"})
    (model,) = config.managed
    assert (config.has_automatic_budget, config.memory_budget_bytes) == (True, None)
    assert (model.memory_bytes, model.is_pinned, model.group, model.is_preloaded) == (8 << 30, True, "day", True)


def test_memory_is_left_to_an_estimate_where_nobody_says(tmp_path: Path) -> None:
    entry = {"path": "m.gguf"}
    assert one(tmp_path, entry).memory_bytes == 0
    assert one(tmp_path, entry, defaults={"memory": 5}).memory_bytes == 5


def test_all_shards_of_a_file_count(tmp_path: Path) -> None:
    for shard in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "n-00001-of-00002.gguf"):
        (tmp_path / shard).write_bytes(bytes(1000))
    assert files_bytes(tmp_path / "m-00001-of-00002.gguf") == 2000
    assert files_bytes(tmp_path / "none.gguf") == files_bytes(tmp_path / "no/m-00001-of-00002.gguf") == 0


def test_a_soft_limit_is_the_entrys_own_or_a_share_of_its_context(tmp_path: Path) -> None:
    entry = {"path": "m.gguf", "ctxSize": 1000}
    assert one(tmp_path, entry).soft_context_limit == 750
    assert one(tmp_path, {**entry, "softContextRatio": 0.7}).soft_context_limit == 700
    assert one(tmp_path, entry, defaults={"softContextRatio": 0}).soft_context_limit == 0
    assert one(tmp_path, {**entry, "softContextLimit": 0}).soft_context_limit == 0
    assert one(tmp_path, {**entry, "softContextLimit": 9}).soft_context_limit == 9


def test_null_is_the_same_as_nothing(tmp_path: Path) -> None:
    assert one(tmp_path, {"path": "m.gguf", "publicPort": None, "alias": None}).alias == "m"


M = {"name": "m", "path": "m.gguf"}
E = {"name": "e", "url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "the file: expected an object {…} of named values, got []"),
        ({}, "models: expected a list […], in TOML [[models]], got nothing"),
        ({"models": []}, "models: expected 1 to 1000 models, got 0"),
        ({"models": {}}, "models: expected a list […], in TOML [[models]], got {}"),
        ({"models": [3]}, "models[0]: expected an object"),
        ({"models": [M], "modles": []}, "modles is unknown here; did you mean 'models'?"),
        ({"models": [M], "ctx_size": 1}, "ctx_size is unknown here; it belongs in defaults or an entry of models"),
        ({"models": [M], "publicPort": 1}, "publicPort is unknown here; it belongs in an entry of models"),
        (
            {"models": [M], "defaults": {"alias": "a"}},
            "defaults.alias is unknown here; it belongs in an entry of models",
        ),
        (
            {"models": [{**M, "memoryBudget": 1}]},
            "models[0].memoryBudget is unknown here; it belongs at the top of the file",
        ),
        ({"models": [M], "zzzzzz": []}, "zzzzzz is unknown here; known are $schema, allowHosts,"),
        ({"models": [{**M, "ctxsize": 1}]}, "models[0].ctxsize is unknown here; did you mean 'ctxSize'?"),
        ({"models": [{**M, "ctx_siz": 1}]}, "models[0].ctx_siz is unknown here; did you mean 'ctx_size'?"),
        ({"models": [{**M, "contextSize": 1}]}, "models[0].contextSize is unknown here; did you mean 'ctxSize'?"),
        ({"models": [M], "ports": {"public": 1}}, "ports.public is unknown here; did you mean 'publicBase'?"),
        (
            {"models": [{**M, "ctxSize": 1, "ctx_size": 1}]},
            "models[0] has 'ctxSize' and 'ctx_size', which are the same",
        ),
        ({"models": [{**M, "key": "m"}]}, "models[0] has 'name' and 'key', which are the same; leave one out"),
        (
            {"models": [M], "llamaServer": {}, "common": {}},
            "the file has 'llamaServer' and 'common', which are the same",
        ),
        ({"models": [M, {**M, "name": "b", "ctxSize": "8k"}]}, 'models[1].ctxSize: expected a whole number, got "8k"'),
        ({"models": [{**M, "ctx_size": True}]}, "models[0].ctx_size: expected a whole number, got true"),
        ({"models": [{**M, "ctxSize": 0}]}, "models[0].ctxSize: expected a whole number from 1 to"),
        ({"models": [{**M, "publicPort": 0}]}, "models[0].publicPort: expected a whole number from 1 to 65535, got 0"),
        ({"models": [{**M, "publicPort": 70000}]}, "models[0].publicPort: expected a whole number from 1 to 65535"),
        ({"models": [{**M, "pinned": "yes"}]}, 'models[0].pinned: expected true or false, got "yes"'),
        ({"models": [{**M, "args": [1]}]}, "models[0].args[0]: expected a text, got 1"),
        ({"models": [{**M, "alias": ""}]}, 'models[0].alias: expected a text, got ""'),
        ({"models": [{**M, "alias": "a\nb"}]}, "models[0].alias: expected a text without control characters"),
        ({"models": [{**M, "memory": "much"}]}, 'models[0].memory: expected a size such as "20 GB"'),
        ({"models": [{**M, "env": {"A=B": "x"}}]}, "models[0].env: 'A=B': expected a name without ="),
        ({"models": [{**M, "env": ["A=B"]}]}, "models[0].env: expected an object such as"),
        (
            {"models": [{**M, "softContextRatio": 2}]},
            "models[0].softContextRatio: expected a number from 0 to 1, got 2",
        ),
        ({"models": [M], "idleTimeoutSec": -1}, "idleTimeoutSec: expected a number from 0 to"),
        ({"models": [M], "swapPolicy": "kill"}, 'swapPolicy: expected "wait" or "interrupt", got "kill"'),
        ({"models": [M], "backend": "ollama"}, 'backend: expected "whitedwarf" or "llama-server", got "ollama"'),
        ({"models": [{"path": "m.gguf"}]}, "models[0].name: expected a name"),
        ({"models": [{"name": "m"}]}, "models[0].path: expected the path of a .gguf file, or a url"),
        ({"models": [{**M, "url": "http://x"}]}, "models[0].url: a model has either a path"),
        ({"models": [M, M]}, "models[1].name: 'm' is models[0] already"),
        ({"models": [{**E, "pinned": True}]}, "models[0].pinned: an external model (url) has no such thing"),
        ({"models": [{**M, "apiKeyEnv": "K"}]}, "models[0].apiKeyEnv: a managed model has no such thing"),
        ({"models": [{**E, "url": "127.0.0.1:80"}]}, "models[0].url: '127.0.0.1:80': expected http://HOST:PORT/PATH"),
        ({"models": [{**M, "mtp": True}]}, 'models[0].mtp: only backend "llama-server" has this'),
        ({"models": [{**M, "args": ["--port", "1"]}]}, "models[0].args: --host and --port are chosen here"),
        (
            {"models": [M, {**E, "publicPort": 8080}]},
            "port 8080 is the automatic public port of 'm' and also models[1]",
        ),
        ({"models": [M], "ports": {"publicBase": 0}}, "ports.publicBase: expected a whole number from 1 to 65535"),
        ('{"models": [}', "line 1, column 13: expected a value"),
        ('{"models": [],\n "models": []}', 'line 2, column 2: "models" stands twice'),
        ({"models": [M], "swapMaxWaitSec": 0}, "swapMaxWaitSec: expected a number from 1 to"),
        ("[" * 1000, "line 1, column 66: expected at most 64 levels"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, content: object, says: str) -> None:
    assert says in told(tmp_path, content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = \n", "this is no TOML: Invalid value (at "),
        ("a = " + "[" * 5000, "no"),
        ('[[models]]\nname = 2026-11-30\npath = "x"', "models[0].name: expected a text, got 2026-11-30"),
        ("idle_timeout_sec = " + "9" * 5000, "this is no config: it has a number of thousands of digits"),
        (
            "idle_timeout_sec = 0x" + "f" * 5000 + A_MODEL,
            "expected a number, got too much to be shown",
        ),
        ("host = 0x" + "f" * 5000 + A_MODEL, "host: expected a text, got too much to be shown"),
        ("host." + ".".join("a" * 2000) + " = 1" + A_MODEL, "host: expected a text, got "),
        (A_MODEL + "\n[env]\nA = 0x" + "f" * 5000, "env: 'A': expected a name without ="),
        ('idle_timeout_sec = nan\n[[models]]\nname = "m"\npath = "x"', "idle_timeout_sec: expected a number, got NaN"),
    ],
)
def test_toml_is_told_its_faults_too(tmp_path: Path, text: str, says: str) -> None:
    assert says in told(tmp_path, text, "models.toml")


@pytest.mark.parametrize(("name", "value"), [("idleTimeoutSec", 10**399), ("maxBody", f"{10**399} GB")])
def test_numbers_beyond_all_others_are_refused(tmp_path: Path, name: str, value: object) -> None:
    assert f"{name}: expected a" in told(tmp_path, {"models": [{"name": "m", "path": "x"}], name: value})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1.2.3"])
def test_a_server_that_would_ask_itself_is_refused(tmp_path: Path, host: str) -> None:
    url = f"http://{host}:8080/v1"
    assert "models[0].url: port 8080 is its own publicPort" in told(tmp_path, {"models": [{"name": "m", "url": url}]})
    assert one(tmp_path, {"url": url, "publicPort": 8081}).url == url
    assert one(tmp_path, {"url": "http://elsewhere:8080"}).public_port == 8080


def test_a_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="the folder that we are in is gone"):
        read_config(Path("models.json"))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a readable file; No such file"):
        read_config(tmp_path / "none.json")
    with pytest.raises(UsageError, match="expected a readable file; Is a directory"):
        read_config(tmp_path)
    (tmp_path / "models.json").write_bytes(b'{"models": "\xff"}')
    with pytest.raises(UsageError, match="expected a text in UTF-8; byte 12 is none"):
        read_config(tmp_path / "models.json")


def test_flash_attention_that_is_off_takes_quantised_values_away(tmp_path: Path) -> None:
    off = {"args": ["-fa", "off"]}
    entry = {"path": "m.gguf"}
    assert one(tmp_path, entry, llamaServer=off).arguments[-2:] == ("--cache-type-v", "f16")
    assert one(tmp_path, {**entry, "cacheTypeV": "f32"}, llamaServer=off).arguments[-1] == "f32"
    said = told(tmp_path, {"models": [{**M, "cacheTypeV": "q4_0"}], "llamaServer": off})
    assert said.startswith("models[0].cacheTypeV: q4_0 needs flash attention")


def test_what_llama_servers_common_arguments_say_is_not_said_again(tmp_path: Path) -> None:
    common = {"args": ["-c", "8192", "-ctk", "f16", "--cache-type-v", "f16"]}
    model = one(tmp_path, {"path": "/m.gguf"}, llamaServer=common)
    assert (model.context_size, model.arguments[6:]) == (8192, ("-m", "/m.gguf", "-c", "8192"))


@given(st.sampled_from((*FIELDS, *ENTRY_FIELDS, *DEFAULT_FIELDS)))
def test_every_field_has_a_spelling_of_its_own_in_toml(name: str) -> None:
    assert snake_case(name) == snake_case(snake_case(name)) == snake_case(name).lower()


@pytest.mark.parametrize(
    ("written", "size"),
    [(0, 0), ("20 GB", 20 * 10**9), ("20gib", 20 << 30), ("1.5 T", 1_500_000_000_000), ("7B", 7), (" 2 MiB ", 2 << 20)],
)
def test_sizes_are_written_as_people_write_them(written: object, size: int) -> None:
    assert size_of(written) == size


@pytest.mark.parametrize("written", ["20", "GB", "-1 GB", "1,5 GB", "1 PB", True, 1.5, -1, None, "٣ GB", "9999999 TB"])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        size_of(written)


def test_the_dump_says_everything_that_was_decided(tmp_path: Path) -> None:
    config = config_of(tmp_path, SEED)
    told = json.loads(json.dumps(dumped(config)))
    assert dumped(read_config(config.source, STATE)) == dumped(config)  # again, whatever runs meanwhile
    first, second = told["models"]
    assert (first["kind"], first["publicPort"], first["internalPort"], first["ctxSize"]) == (
        "managed",
        8080,
        9080,
        32768,
    )
    assert first["command"][:2] == ["/opt/llama/llama-server", "-ngl"]
    assert (second["kind"], second["url"]) == ("external", "http://127.0.0.1:11434/v1")
