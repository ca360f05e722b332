"""What a supervisor is told, complete: every default is filled in and every port is chosen.

Values only. config_file.py makes them from what people write, ports.py chooses the ports; both are pure, so that
`--dump-models` says the same whether a supervisor runs or not (spec/supervisor.md 2.2).
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Backend(StrEnum):
    """Which program runs a managed model."""

    WHITEDWARF = "whitedwarf"
    LLAMA_SERVER = "llama-server"


class SwapPolicy(StrEnum):
    """What a request does that needs the place of a model which is answering."""

    WAIT = "wait"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedModel:
    """A model whose process is ours to start and to stop.

    `program` and `arguments` are what is run, less the port and the address (commands.py adds them). Times are seconds;
    `idle_timeout_s` 0 keeps it for ever. `soft_context_limit` tokens, 0 for none. `memory_bytes` is what it is taken to
    need, 0 where nobody said (memory.py estimates); only a budget asks for it.
    """

    key: str
    alias: str
    path: Path
    public_port: int
    internal_port: int
    backend: Backend
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    context_size: int = 32_768
    soft_context_limit: int = 0
    soft_grace_s: float = 180.0
    idle_timeout_s: float = 500.0
    start_timeout_s: float = 300.0
    settle_s: float = 1.5
    stop_grace_s: float = 20.0
    max_waiting: int = 64
    memory_bytes: int = 0
    is_pinned: bool = False
    group: str | None = None
    is_preloaded: bool = False
    keeps_state: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalModel:
    """A server that somebody else runs: everything is forwarded, nothing is started, stopped or released."""

    key: str
    alias: str
    url: str
    public_port: int
    context_size: int = 0
    soft_context_limit: int = 0
    soft_grace_s: float = 180.0
    api_key_variable: str | None = None


Model = ManagedModel | ExternalModel


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorConfig:
    """All models and how they share the machine. `source` is the file it came from.

    `memory_budget_bytes` None: one managed model at a time, unless `has_automatic_budget`: then it is what the machine
    has when the supervisor starts (memory.py measures). `early_headers_after_s`: when a waiting stream gets its
    headers and comments (spec/supervisor.md 2.27); `tells_loading` adds lines that people see.
    """

    source: Path
    models: tuple[Model, ...]
    state_folder: Path
    log_folder: Path
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    api_key_file: Path | None = None
    check_interval_s: float = 5.0
    swap_policy: SwapPolicy = SwapPolicy.WAIT
    swap_max_wait_s: float = 600.0
    memory_budget_bytes: int | None = None
    has_automatic_budget: bool = False
    early_headers_after_s: float = 30.0
    tells_loading: bool = False
    max_body_bytes: int = 256 << 20
    max_log_bytes: int = 4 << 20

    @property
    def managed(self) -> tuple[ManagedModel, ...]:
        """Those whose processes are ours."""
        return tuple(model for model in self.models if isinstance(model, ManagedModel))
