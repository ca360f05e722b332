"""The status of a model, from what the desk knows of it. Pure."""

from whitedwarf.supervisor import policy
from whitedwarf.supervisor.residence import External, Resident, Stay
from whitedwarf.supervisor.schedule import Stage
from whitedwarf.supervisor.status import ModelStatus, State

_STATES = {Stage.LOADING: State.LOADING, Stage.LOADED: State.LOADED, Stage.STOPPING: State.STOPPING}


def managed_status(resident: Resident, waiting: int, now_s: float, budget_bytes: int | None) -> ModelStatus:
    """Of a model whose process is ours."""
    model, stay = resident.model, resident.stay
    running = stay.running if stay is not None else None
    is_idle = stay is not None and stay.stage is Stage.LOADED and stay.in_flight == 0
    return ModelStatus(
        key=model.key,
        alias=model.alias,
        kind="managed",
        state=_state(resident),
        public_port=model.public_port,
        internal_port=running.address.port if running is not None else model.internal_port,
        pid=running.pid if running is not None else None,
        in_flight=stay.in_flight if stay is not None else 0,
        waiting=waiting,
        idle_s=max(0.0, now_s - stay.used_s) if stay is not None and is_idle else None,
        release_in_s=stay.release_in_s(now_s) if stay is not None else None,
        context_size=resident.real_context or model.context_size,
        soft_limit=resident.limit.tokens(resident.real_context),
        counting=resident.limit.counting,
        start_count=resident.start_count,
        last_start_s=resident.last_start_s,
        failure=str(resident.failure) if resident.failure is not None else None,
        loading_text=_loading_text(stay),
        is_pinned=model.is_pinned,
        memory_bytes=resident.memory_bytes(),
        warnings=(
            *_budget_warnings(resident, budget_bytes),
            *_limit_warnings(resident),
            *(running.warnings if running is not None else ()),
        ),
    )


def external_status(external: External) -> ModelStatus:
    """Of a server that somebody else runs."""
    model = external.model
    return ModelStatus(
        key=model.key,
        alias=model.alias,
        kind="external",
        state=State.LOADED,
        public_port=model.public_port,
        in_flight=external.in_flight,
        context_size=model.context_size,
        soft_limit=external.limit.tokens(model.context_size),
        counting=external.limit.counting,
        warnings=external.limit.warnings,
    )


def _state(resident: Resident) -> State:
    if resident.stay is not None:
        return _STATES[resident.stay.stage]
    return State.UNLOADED if resident.failure is None else State.FAILED


def _loading_text(stay: Stay | None) -> str | None:
    return stay.loading_text or None if stay is not None and stay.stage is Stage.LOADING else None


def _limit_warnings(resident: Resident) -> tuple[str, ...]:
    model = resident.model
    told = policy.limit_warnings(model.soft_context_limit, model.context_size, resident.real_context)
    return (*told, *resident.limit.warnings)


def _budget_warnings(resident: Resident, budget_bytes: int | None) -> tuple[str, ...]:
    needed = resident.memory_bytes()
    if budget_bytes is None or needed <= budget_bytes:
        return ()
    return (
        f"needs about {needed / 2**30:.1f} GiB, more than the memory budget of {budget_bytes / 2**30:.1f} GiB: "
        "it runs alone, and may not fit",
    )
