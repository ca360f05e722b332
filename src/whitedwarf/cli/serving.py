"""From options to a running server: the one place where model, engine, road and HTTP are wired together.

Promises: keys and address are checked before the model is loaded; when this returns, the engine has ended.
"""

import gc
import logging
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from whitedwarf.cli.loading import LoadedModel, note, open_file, open_model, open_tokenizer
from whitedwarf.cli.serve_checks import check_script, enter
from whitedwarf.cli.serve_plan import model_line, open_door_warning, prefixes_line, served_line
from whitedwarf.cli.steering_flags import SteeringWish, steered, steering_facts, steering_wish
from whitedwarf.config import DEFAULT_CONTEXT, DEFAULT_STEERING, ModelSettings, ServeSettings, SteeringSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import EngineClosedError, UsageError
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.past import Past
from whitedwarf.protocol.policy import local
from whitedwarf.respond import Backend, Road
from whitedwarf.server.app import make_app
from whitedwarf.server.debug_last import debug_last
from whitedwarf.server.disk_prefixes import DiskPrefixes
from whitedwarf.server.disk_settings import disk_limits, disk_settings
from whitedwarf.server.endpoints import Endpoints
from whitedwarf.server.facts import Facts
from whitedwarf.server.listen import Server
from whitedwarf.server.metrics import Metrics
from whitedwarf.server.models import ServedModel
from whitedwarf.server.request_log import JsonLines, LogLines
from whitedwarf.server.request_trace import Trace
from whitedwarf.server.script import ScriptWords, read_script
from whitedwarf.server.trace import TraceFile
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule
from whitedwarf.web.sockets import address_of, bound_socket
from whitedwarf.weights.placement_text import placement_line
from whitedwarf.weights.streaming_text import streaming_line


def serve_model(serve: ServeSettings, settings: ModelSettings, steering: SteeringSettings = DEFAULT_STEERING) -> int:
    """Serve until a signal; 0 after an orderly end."""
    enter(serve.chdir)
    check_script(serve, steering, settings)
    keys = None if serve.api_key_file is None else ApiKeys.from_file(serve.api_key_file)
    disk_limits(serve)  # contradictions are told at once
    wish = steering_wish(steering)
    with bound_socket(serve.host, serve.port) as listener, _trace_file(serve.trace) as trace:
        place = _Place(serve, settings, keys, listener, trace)
        if serve.script is not None:
            _serve_script(serve.script, place)
            return 0
        _serve_loaded(place, wish)
    return 0


@dataclass(frozen=True, slots=True)
class _Place:
    """What is settled before a model is there."""

    serve: ServeSettings
    settings: ModelSettings
    keys: ApiKeys | None
    listener: socket.socket
    trace: TraceFile | None

    def past(self, tokenizer: Tokenizer) -> Past:
        """The memory of what was said."""
        exact = not self.serve.disable_exact_dsml_tool_replay
        return Past(tokenizer, max_call_ids=self.serve.tool_memory_max_ids if exact else 0)

    def endpoints(
        self, engine: Backend, tokenizer: Tokenizer, past: Past, model: ServedModel, facts: Facts
    ) -> Endpoints:
        """All that is answered."""
        version = ModelVersion(self.serve.recipe.upper())
        policy = local(version, self.serve.max_tokens, self.serve.max_call_tokens, model.id)
        return Endpoints(
            Road(engine, tokenizer, policy, past),
            replace(model, default_max_tokens=self.serve.max_tokens),
            metrics=Metrics(facts),
            facts=facts,
            trace=None if self.trace is None else Trace(self.trace, tokenizer),
        )

    def run(self, engine: Engine | ScriptedEngine, endpoints: Endpoints) -> None:
        """Until a signal."""
        told = served_line(endpoints.model.id, address_of(self.listener), self.serve)
        door = open_door_warning(self.listener.getsockname()[0], asks_for_keys=self.keys is not None)
        if door is not None:
            note(door)
        app = make_app(endpoints, host_rule(self.serve), self.keys)
        server = Server(app, self.serve.drain_s, engine.close, lambda: note(told), lambda: engine.is_running)
        _log_to_stderr(self.serve.log_format)
        self.listener.listen()  # before anybody is told the address
        _settle()
        server.run([self.listener])
        if server.has_died:
            raise EngineClosedError("the engine stopped after an internal error, which is in the log: start again")


def _serve_loaded(place: _Place, wish: SteeringWish | None) -> None:
    serve = place.serve
    plain = open_model(place.settings, parallel=serve.parallel, prefix_bytes=serve.kv_ram_mb << 20)
    loaded = steered(plain, wish)
    tokenizer = loaded.tokenizer()
    note(loaded.describe())
    past = place.past(tokenizer)
    # the store outlives the engine, which offers its states when it ends
    with disk_prefixes(loaded, tokenizer, serve, past) as store, _engine(loaded, serve, store) as engine:
        past.saved = store
        model = served_model(loaded.gguf, loaded.context_length, serve.alias)
        note(model_line(model.name, loaded.gguf))
        note(prefixes_line(serve, None if store is None else store.stats))
        facts = replace(
            _facts(serve, loaded.gguf),
            power_percent=loaded.settings.power,
            backend=loaded.transformer.ops.name,
            steering=None if wish is None else steering_facts(wish, loaded),
            is_running=lambda: engine.is_running,
            prefix_stats=lambda: engine.prefix_stats,
            disk_stats=None if store is None else lambda: asdict(store.stats),
            placement=None if loaded.on_cards is None else placement_line(loaded.on_cards.placement),
            streaming=None if loaded.streaming is None else streaming_line(loaded.streaming.plan),
            expert_stats=loaded.expert_stats,
        )
        place.run(engine, place.endpoints(engine, tokenizer, past, model, facts))


def _serve_script(path: Path, place: _Place) -> None:
    """Of the model only the tokenizer is used, and its context may be any."""
    gguf = open_file(place.settings)
    tokenizer = open_tokenizer(gguf)
    with scripted_engine(path, tokenizer, place.serve, place.settings) as engine:
        facts = replace(_facts(place.serve, gguf), backend="script", is_running=lambda: engine.is_running)
        model = served_model(gguf, engine.context_length, place.serve.alias)
        endpoints = place.endpoints(engine, tokenizer, place.past(tokenizer), model, facts)
        place.run(engine, replace(endpoints, look_at_last=lambda: debug_last(engine.last_received, tokenizer)))


def _facts(serve: ServeSettings, gguf: GgufFile) -> Facts:
    return Facts(
        recipe=serve.recipe,
        file_name=gguf.paths[0].name,
        total_slots=serve.parallel,
        max_waiting=serve.max_waiting,
    )


@contextmanager
def _trace_file(path: Path | None) -> Iterator[TraceFile | None]:
    if path is None:
        yield None
        return
    with closing(TraceFile.open(path)) as trace:
        yield trace


def scripted_engine(path: Path, tokenizer: Tokenizer, serve: ServeSettings, settings: ModelSettings) -> ScriptedEngine:
    """What plays a script file; FileFormatError where it is none."""
    return ScriptedEngine(
        read_script(path, ScriptWords.of(tokenizer)),
        context_length=settings.context or DEFAULT_CONTEXT,
        vocab_size=tokenizer.vocab_size,
        max_parallel=serve.parallel,
        max_waiting=serve.max_waiting,
    )


def disk_prefixes(
    loaded: LoadedModel, tokenizer: Tokenizer, serve: ServeSettings, past: Past
) -> AbstractContextManager[DiskPrefixes | None]:
    """The store behind `--kv-disk-dir`, if it is given; UsageError when that cannot be a folder of ours."""
    settings = disk_settings(serve, loaded.transformer, loaded.gguf, quality=loaded.settings.quality)
    if settings is None:
        return nullcontext()
    try:
        if serve.kv_disk_dir is not None:  # a folder below it would make it one that others may look into
            serve.kv_disk_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return DiskPrefixes(loaded.transformer, tokenizer, settings, past.blocks_in)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"--kv-disk-dir {settings.directory}: expected a folder that is ours; {why}") from error


def _engine(loaded: LoadedModel, serve: ServeSettings, store: DiskPrefixes | None) -> Engine:
    return Engine(
        loaded.transformer,
        max_chunk_tokens=loaded.chunk_tokens,
        max_parallel=serve.parallel,
        max_waiting=serve.max_waiting,
        prefix_budget_bytes=serve.kv_ram_mb << 20,
        power_percent=loaded.settings.power,
        store=store,
        drafting=loaded.drafting(),
    )


def served_model(gguf: GgufFile, context_length: int, alias: str | None = None) -> ServedModel:
    """What clients are told about the model; its id is the alias, else its name as one word."""
    name = str(gguf.metadata.get("general.name") or "DeepSeek V4")
    now_s = int(time.time())
    return ServedModel(
        id=alias or re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "deepseek-v4",
        name=name,
        context_length=context_length,
        loaded_at=now_s,
        loaded_at_text=datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def host_rule(serve: ServeSettings) -> HostRule:
    """By which names clients may call us: the machine's own, the one we listen on, and those that were allowed."""
    machine = socket.gethostname()
    names = {serve.host, machine, f"{machine}.local", *serve.allow_host}
    return HostRule(frozenset(name.lower() for name in names), allows_all_origins=serve.cors)


def _settle() -> None:
    """What was loaded stays: to look through its 300,000 objects for garbage again and again would hold up every thread
    for a tenth of a second each time."""
    gc.collect()
    gc.freeze()


def _log_to_stderr(form: str) -> None:
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(JsonLines() if form == "json" else LogLines())
    logger = logging.getLogger("whitedwarf")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addHandler(lines)
