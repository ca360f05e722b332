"""The resolved list of models as JSON: what `--dump-models` prints and what helpers read.

Names are those of the file, in camelCase; sizes are bytes, times seconds. Pure, and the same while a supervisor runs.
"""

from whitedwarf.supervisor.commands import child_command
from whitedwarf.supervisor.config import ExternalModel, ManagedModel, Model, SupervisorConfig
from whitedwarf.supervisor.jsonc import Json


def dumped(config: SupervisorConfig) -> dict[str, Json]:
    """Everything that was decided."""
    return {
        "source": str(config.source),
        "host": config.host,
        "allowHosts": list(config.allowed_hosts),
        "apiKeyFile": None if config.api_key_file is None else str(config.api_key_file),
        "stateDir": str(config.state_folder),
        "logDir": str(config.log_folder),
        "memoryBudget": "auto" if config.has_automatic_budget else config.memory_budget_bytes,
        "swapPolicy": config.swap_policy.value,
        "swapMaxWaitSec": config.swap_max_wait_s,
        "checkIntervalSec": config.check_interval_s,
        "earlyHeadersSec": config.early_headers_after_s,
        "loadingState": config.tells_loading,
        "maxBody": config.max_body_bytes,
        "maxLog": config.max_log_bytes,
        "models": [_model(model, config) for model in config.models],
    }


def _model(model: Model, config: SupervisorConfig) -> Json:
    if isinstance(model, ExternalModel):
        return {"kind": "external", **_both(model), "url": model.url, "apiKeyEnv": model.api_key_variable}
    return {"kind": "managed", **_both(model), **_managed(model, config)}


def _both(model: Model) -> dict[str, Json]:
    return {
        "name": model.key,
        "alias": model.alias,
        "publicPort": model.public_port,
        "ctxSize": model.context_size,
        "softContextLimit": model.soft_context_limit,
        "softGraceSec": model.soft_grace_s,
    }


def _managed(model: ManagedModel, config: SupervisorConfig) -> dict[str, Json]:
    return {
        "internalPort": model.internal_port,
        "path": str(model.path),
        "backend": model.backend.value,
        "idleTimeoutSec": model.idle_timeout_s,
        "startTimeoutSec": model.start_timeout_s,
        "startSettleSec": model.settle_s,
        "stopGraceSec": model.stop_grace_s,
        "maxWaiting": model.max_waiting,
        "memory": model.memory_bytes or None,
        "pinned": model.is_pinned,
        "group": model.group,
        "preload": model.is_preloaded,
        "keepsState": model.keeps_state,
        "env": dict(model.environment),
        "command": list[Json](child_command(model, model.internal_port, config.state_folder)),
    }
