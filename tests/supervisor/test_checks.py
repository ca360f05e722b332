"""What `--check` warns of: right in form, and yet probably not what was meant."""

import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor.test_config_file import config_of
from whitedwarf.errors import UsageError
from whitedwarf.supervisor.checks import key_texts, keys_of, warnings_of


def warnings(folder: Path, *models: dict[str, Any], **top: Any) -> list[str]:
    (folder / "m.gguf").write_bytes(bytes(1000))
    program = {"llamaServer": {"bin": sys.executable}, **top}
    entries = [{"name": f"m{index}", "path": "m.gguf", **model} for index, model in enumerate(models)]
    return warnings_of(config_of(folder, {"models": entries, **program}))


def test_a_plain_config_is_worth_no_warning(tmp_path: Path) -> None:
    assert warnings(tmp_path, {}, {"backend": "whitedwarf"}) == []


@pytest.mark.parametrize(
    ("models", "top", "says"),
    [
        ([{"path": "no.gguf"}], {}, "m0: there is no file "),
        ([{}], {"llamaServer": {"bin": "no-such-program"}}, "m0: there is no program no-such-program"),
        ([{"softContextLimit": 40_000}], {}, "m0: softContextLimit 40000 is beyond its context of 32768 tokens"),
        (
            [{"memory": "3 GiB"}],
            {"memoryBudget": "2 GiB"},
            "m0: it needs about 3072 MiB, more than memoryBudget (2048 MiB)",
        ),
        ([{"alias": "a"}, {"alias": "a"}], {}, "2 models have the alias 'a'"),
        ([{}], {"host": "0.0.0.0"}, "0.0.0.0: whoever reaches this machine may use it"),
        ([{}], {"host": "box.local"}, "box.local: whoever reaches this machine may use it"),
    ],
)
def test_a_doubt_is_told(models: list[dict[str, Any]], top: dict[str, Any], says: str, tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, *models, **top)
    assert line.startswith(says)


@pytest.mark.parametrize(
    ("models", "top"),
    [
        ([{"pinned": True}, {}], {}),
        ([{"memory": "1 GiB"}], {"memoryBudget": "2 GiB"}),
        ([{}], {"host": "localhost"}),
        ([{}], {"host": "::1"}),
    ],
)
def test_what_is_fine_is_not_told(models: list[dict[str, Any]], top: dict[str, Any], tmp_path: Path) -> None:
    assert warnings(tmp_path, *models, **top) == []


def test_keys_are_read_from_the_configs_file(tmp_path: Path) -> None:
    models = [{"name": "m", "path": "m.gguf"}]
    assert (keys_of(config_of(tmp_path, {"models": models})), key_texts(config_of(tmp_path, {"models": models}))) == (
        None,
        [],
    )
    keys = tmp_path / "keys"
    keys.write_text("# of mine\nabc\n")
    keys.chmod(0o600)
    config = config_of(tmp_path, {"models": models, "apiKeyFile": "keys"})
    found = keys_of(config)
    assert found is not None
    assert found.admits({"authorization": "Bearer abc"})
    assert key_texts(config) == ["abc"]
    keys.chmod(0o644)
    with pytest.raises(UsageError, match=r"models.json: apiKeyFile .*others may use it"):
        keys_of(config)
