"""From the file that people write to a config in which everything is decided (docs/supervisor.md has the fields).

Promises: the same file gives the same config, whether a supervisor runs or not; whatever is wrong is a UsageError with
the file's name and the place in it. A model's file that is not there is no error: that is told when it is started.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from whitedwarf.errors import UsageError
from whitedwarf.supervisor import entries
from whitedwarf.supervisor.config import Backend, Model, SupervisorConfig, SwapPolicy
from whitedwarf.supervisor.config_table import Table
from whitedwarf.supervisor.entry_command import Surroundings, absolute, program_of
from whitedwarf.supervisor.jsonc import parse_jsonc
from whitedwarf.supervisor.ports import assign_ports

OLD_NAMES = {"common": "llamaServer"}
FIELDS = (
    *("models", "defaults", "ports", "llamaServer", "whitedwarf", "backend", "env", "$schema"),
    *("host", "allowHosts", "apiKeyFile", "stateDir", "logDir"),
    *("memoryBudget", "swapPolicy", "swapMaxWaitSec", "checkIntervalSec", "earlyHeadersSec", "loadingState"),
    *("maxWaiting", "keepsState", "maxBody", "maxLog"),
    *entries.COMMON_FIELDS,
)
_IN_AN_ENTRY = {name: "in an entry of models" for name in entries.ENTRY_FIELDS if name not in FIELDS}
_ELSEWHERE = {name: "at the top of the file" for name in FIELDS if name not in entries.ENTRY_FIELDS}
_BELOW = _IN_AN_ENTRY | dict.fromkeys(entries.DEFAULT_FIELDS, "in defaults or an entry of models")
"""Where names belong that stand in the wrong place."""
MOST_FILE_BYTES = 4 << 20
MOST_MODELS = 1000


def read_config(path: Path, environment: Mapping[str, str] = os.environ) -> SupervisorConfig:
    """The file's config; `environment` says where state goes when the file does not (XDG_STATE_HOME)."""
    try:
        source = Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would lose the name behind a symbolic link)
    except OSError as error:
        raise UsageError(f"{path}: the folder that we are in is gone; go to one that is there") from error
    try:
        return _config(Table(_value(source), "", FIELDS, OLD_NAMES, _BELOW), source, environment)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _value(source: Path) -> object:
    try:
        with source.open("rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"expected a readable file; {error.strerror}") from error
    if len(content) > MOST_FILE_BYTES:
        raise UsageError(f"expected a config of at most {MOST_FILE_BYTES} bytes, got more")
    try:
        text = content.decode(json.detect_encoding(content))  # PowerShell writes UTF-16, with a mark
    except UnicodeDecodeError as error:
        raise UsageError(f"expected a text in UTF-8; byte {error.start} is none") from error
    return _toml(text) if source.suffix.lower() == ".toml" else parse_jsonc(text)


def _toml(text: str) -> object:
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"this is no TOML: {error}") from error
    except ValueError:  # Python's own bound
        raise UsageError("this is no config: it has a number of thousands of digits") from None
    except RecursionError:
        raise UsageError("this is no config: it is nested too deeply") from None


def _config(top: Table, source: Path, environment: Mapping[str, str]) -> SupervisorConfig:
    folder = source.parent
    state_folder = _folder(top, "stateDir", folder) or default_state_folder(source, environment)
    budget = top.value("memoryBudget")
    is_automatic = budget == "auto"
    key_file = top.text("apiKeyFile")
    return SupervisorConfig(
        source=source,
        models=_models(top, folder),
        state_folder=state_folder,
        log_folder=_folder(top, "logDir", folder) or state_folder / "logs",
        host=top.text("host", "127.0.0.1"),
        allowed_hosts=top.texts("allowHosts"),
        api_key_file=absolute(key_file, folder) if key_file else None,
        check_interval_s=top.number("checkIntervalSec", 5.0, least=0.05),
        swap_policy=top.choice("swapPolicy", SwapPolicy.WAIT),
        swap_max_wait_s=top.number("swapMaxWaitSec", 600.0, least=1.0),
        memory_budget_bytes=None if budget is None or is_automatic else top.size("memoryBudget", 0),
        has_automatic_budget=is_automatic,
        early_headers_after_s=top.number("earlyHeadersSec", 30.0),
        tells_loading=top.flag("loadingState", default=False),
        max_body_bytes=top.size("maxBody", 256 << 20),
        max_log_bytes=top.size("maxLog", 4 << 20),
    )


def _models(top: Table, folder: Path) -> tuple[Model, ...]:
    around = _surroundings(top, folder)
    tables = [entries.entry_table(value, index, _ELSEWHERE) for index, value in enumerate(top.items("models"))]
    if not 1 <= len(tables) <= MOST_MODELS:
        top.fail("models", f"expected 1 to {MOST_MODELS} models, got {len(tables)}")
    _check_names(tables)
    ports = top.table("ports", ("publicBase", "internalBase"))
    bases = [ports.whole(name, base, least=1, most=65_535) for name, base in _BASES.items()]
    pairs = assign_ports([entries.port_request(table) for table in tables], *bases)
    return tuple(
        (entries.external_model if table.has("url") else entries.managed_model)(table, pair, around)
        for table, pair in zip(tables, pairs, strict=True)
    )


_BASES = {"publicBase": 8080, "internalBase": 9080}


def _surroundings(top: Table, folder: Path) -> Surroundings:
    llama = top.table("llamaServer", ("bin", "args"))
    # A config from before our engine had a place for llama-server only, and means it.
    backend = Backend.LLAMA_SERVER if top.has("llamaServer") else Backend.WHITEDWARF
    return Surroundings(
        folder=folder,
        defaults=top.table("defaults", entries.DEFAULT_FIELDS, _IN_AN_ENTRY | _ELSEWHERE),
        top=top,
        backend=top.choice("backend", backend),
        llama_program=program_of(llama, ("llama-server",), folder),
        llama_arguments=llama.texts("args"),
        own_arguments=top.table("whitedwarf", ("args",)).texts("args"),
        environment=entries.environment_of(top),
    )


def _check_names(tables: list[Table]) -> None:
    seen: dict[str, Table] = {}
    for table in tables:
        first = seen.setdefault(table.text("name"), table)
        if first is not table:
            table.fail("name", f"{table.text('name')!r} is {first.path} already; give it another name")


def _folder(top: Table, name: str, folder: Path) -> Path | None:
    written = top.text(name)
    return absolute(written, folder) if written else None


def default_state_folder(source: Path, environment: Mapping[str, str]) -> Path:
    """One for each config: a supervisor stops what another one of the same folder left behind."""
    root = environment.get("XDG_STATE_HOME", "")
    if not root.startswith("/"):  # the XDG specification ignores relative ones
        try:
            root = str(Path.home() / ".local/state")
        except RuntimeError as error:
            raise UsageError("stateDir: there is no home folder to keep state in; say where") from error
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", source.stem).strip(".-")[:40] or "models"
    return Path(root) / "whitedwarf/supervisor" / f"{stem}-{hashlib.sha256(os.fsencode(source)).hexdigest()[:8]}"
