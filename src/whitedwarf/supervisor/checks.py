"""What is right in form and yet will probably not do what was meant: told by `--check`, refused by nobody.

Pure but for looking whether files are there.
"""

import ipaddress
import shutil
from collections import Counter

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import ManagedModel, Model, SupervisorConfig
from whitedwarf.web.auth import ApiKeys, keys_in


def keys_of(config: SupervisorConfig) -> ApiKeys | None:
    """The keys that are asked for, None for none; UsageError where the file cannot be used."""
    return None if config.api_key_file is None else ApiKeys(key_texts(config))


def key_texts(config: SupervisorConfig) -> list[str]:
    """The keys themselves, for who asks a supervisor of his own; none where none are asked for."""
    if config.api_key_file is None:
        return []
    try:
        return keys_in(config.api_key_file)
    except UsageError as error:
        raise UsageError(f"{config.source}: apiKeyFile{str(error).removeprefix('--api-key-file')}") from error


def warnings_of(config: SupervisorConfig) -> list[str]:
    """One line each, with the model's name first where it is about one."""
    found = [f"{model.key}: {line}" for model in config.models for line in _of_model(model, config)]
    return [*found, *_of_all(config)]


def _of_model(model: Model, config: SupervisorConfig) -> list[str]:
    lines = []
    if model.context_size and model.soft_context_limit > model.context_size:
        lines.append(
            f"softContextLimit {model.soft_context_limit} is beyond its context of {model.context_size} tokens"
        )
    if isinstance(model, ManagedModel):
        lines += _of_managed(model, config)
    return lines


def _of_managed(model: ManagedModel, config: SupervisorConfig) -> list[str]:
    lines = []
    if not model.path.is_file():
        lines.append(f"there is no file {model.path}; a request for it will be told so")
    if shutil.which(model.program[0]) is None:
        lines.append(f"there is no program {model.program[0]}; say where it is with llamaServer.bin")
    return [*lines, *_of_budget(model, config.memory_budget_bytes)]


def _of_budget(model: ManagedModel, budget: int | None) -> list[str]:
    from whitedwarf.supervisor.memory import needed_bytes  # brings asyncio

    needed = 0 if budget is None else needed_bytes(model)
    if budget is None or needed <= budget:
        return []
    return [f"it needs about {needed >> 20} MiB, more than memoryBudget ({budget >> 20} MiB): it runs alone"]


def _of_all(config: SupervisorConfig) -> list[str]:
    lines = []
    for alias, count in Counter(model.alias for model in config.models).items():
        if count > 1:
            lines.append(f"{count} models have the alias {alias!r}: clients can tell them apart by their ports only")
    if config.api_key_file is None and not _is_loopback(config.host):
        lines.append(f"{config.host}: whoever reaches this machine may use it; apiKeyFile asks for a key")
    return lines


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
