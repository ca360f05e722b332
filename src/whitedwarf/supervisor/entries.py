"""One entry of a config's list to a model, everything filled in but its ports.

An entry says it, else `defaults`, else the top of the file, else the table in docs/supervisor.md. Pure.
"""

import ipaddress
from collections.abc import Mapping

from whitedwarf.errors import UsageError
from whitedwarf.supervisor import arguments as given
from whitedwarf.supervisor.config import Backend, ExternalModel, ManagedModel
from whitedwarf.supervisor.config_table import Table, first_with
from whitedwarf.supervisor.entry_command import EntryCommand, Surroundings
from whitedwarf.supervisor.ports import PortPair, PortRequest

_SETTLE_S = {Backend.WHITEDWARF: 0.0, Backend.LLAMA_SERVER: 1.5}
"""llama-server has crashed where a long prompt came right after its start (spec/supervisor.md 1.3); ours does not."""

COMMON_FIELDS = ("idleTimeoutSec", "startTimeoutSec", "stopGraceSec", "softGraceSec", "startSettleSec")
"""Those that the top of the file may say for all."""
SHARED_FIELDS = ("backend", "maxWaiting", "keepsState", *COMMON_FIELDS)
DEFAULT_FIELDS = ("ctxSize", "cacheTypeK", "cacheTypeV", "softContextRatio", "memory", "group", *SHARED_FIELDS)
_BOTH_KINDS = ("name", "url", "path", "publicPort", "alias", "ctxSize", "softContextLimit", "softGraceSec")
_MANAGED_ONLY = (
    *("internalPort", "mtp", "args", "bin", "env", "pinned", "preload"),
    *(name for name in DEFAULT_FIELDS if name not in _BOTH_KINDS),
)
_EXTERNAL_ONLY = ("apiKeyEnv",)
ENTRY_FIELDS = (*_BOTH_KINDS, *_MANAGED_ONLY, *_EXTERNAL_ONLY)
OLD_NAMES = {"key": "name", "model": "path"}

DEFAULT_RATIO = 0.75
_MOST_IN_ENVIRONMENT = 1 << 64
_RATIO_SLACK = 1e-9  # 0.1 × 30 is 3.0000000000000004 and 0.7 × 10 is 6.999…: neither is meant


def entry_table(value: object, index: int, elsewhere: Mapping[str, str]) -> Table:
    """The entry's members, as far as they do not contradict each other."""
    entry = Table(value, f"models[{index}]", ENTRY_FIELDS, OLD_NAMES, elsewhere)
    if not entry.has("name"):
        entry.fail("name", "expected a name, by which you call this model; found none")
    if entry.has("url") and entry.has("path"):
        entry.fail("url", "a model has either a path (ours to start) or a url (somebody else's server), not both")
    if not entry.has("url") and not entry.has("path") and not given.has_option(entry.texts("args"), given.MODEL):
        entry.fail("path", "expected the path of a .gguf file, or a url of a server that runs already; found neither")
    kind, other = (
        ("an external model (url)", _MANAGED_ONLY) if entry.has("url") else ("a managed model", _EXTERNAL_ONLY)
    )
    for name in other:
        if entry.has(name):
            entry.fail(name, f"{kind} has no such thing; leave it out")
    return entry


def port_request(entry: Table) -> PortRequest:
    """What it says about ports."""
    public, internal = (_port(entry, name) for name in ("publicPort", "internalPort"))
    return PortRequest(entry.text("name"), entry.path, public, internal, is_managed=not entry.has("url"))


def _port(entry: Table, name: str) -> int:
    return entry.whole(name, 0, least=1, most=65_535) if entry.has(name) else 0


def external_model(entry: Table, ports: PortPair, around: Surroundings) -> ExternalModel:
    """A `url` entry."""
    from whitedwarf.supervisor.upstream import Address  # asyncio and httptools: most configs need neither

    url = entry.text("url")
    try:
        address = Address.of_url(url)
    except UsageError as error:
        entry.fail("url", str(error).removeprefix("url").lstrip(": "))
    if address.port == ports.public and is_this_machine(address.host):
        entry.fail("url", f"port {ports.public} is its own publicPort, so that it would ask itself; choose another")
    return ExternalModel(
        key=entry.text("name"),
        alias=entry.text("alias", entry.text("name")),
        url=url,
        public_port=ports.public,
        context_size=entry.whole("ctxSize", 0),
        soft_context_limit=entry.whole("softContextLimit", 0),
        soft_grace_s=first_with("softGraceSec", entry, around.defaults, around.top).number("softGraceSec", 180.0),
        api_key_variable=entry.text("apiKeyEnv") or None,
    )


def is_this_machine(host: str) -> bool:
    """Whether it certainly is, as far as its name tells."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def managed_model(entry: Table, ports: PortPair, around: Surroundings) -> ManagedModel:
    """A `path` entry."""
    command = EntryCommand(entry, around)
    key = entry.text("name")

    def said(name: str) -> Table:
        return first_with(name, entry, around.defaults, around.top)

    return ManagedModel(
        key=key,
        alias=entry.text("alias") or _alias_in(command.own_words) or key,
        path=command.path,
        public_port=ports.public,
        internal_port=ports.internal,
        backend=command.backend,
        program=command.program,
        arguments=command.arguments,
        environment=tuple(sorted({**around.environment, **environment_of(entry)}.items())),
        context_size=command.context_size,
        soft_context_limit=_soft_limit(entry, around, command.context_size),
        soft_grace_s=said("softGraceSec").number("softGraceSec", 180.0),
        idle_timeout_s=said("idleTimeoutSec").number("idleTimeoutSec", 500.0),
        start_timeout_s=said("startTimeoutSec").number("startTimeoutSec", 300.0, least=0.1),
        settle_s=said("startSettleSec").number("startSettleSec", _SETTLE_S[command.backend]),
        stop_grace_s=said("stopGraceSec").number("stopGraceSec", 20.0),
        max_waiting=said("maxWaiting").whole("maxWaiting", 64, least=1),
        memory_bytes=first_with("memory", entry, around.defaults).size("memory", 0),
        is_pinned=entry.flag("pinned", default=False),
        group=said("group").text("group") or None,
        is_preloaded=entry.flag("preload", default=False),
        keeps_state=said("keepsState").flag("keepsState", default=True),
    )


def environment_of(table: Table) -> dict[str, str]:
    """The variables of `env`."""
    value = table.value("env")
    if value is None:
        return {}
    if not isinstance(value, dict):
        table.fail("env", 'expected an object such as {"NAME": "value"}')
    for name, said in value.items():
        is_number = isinstance(said, int) and not isinstance(said, bool) and abs(said) <= _MOST_IN_ENVIRONMENT
        if not name or "=" in name or "\0" in name or not (is_number or isinstance(said, str)) or "\0" in str(said):
            table.fail("env", f"{name!r}: expected a name without = and a text or whole number as its value")
    return {name: str(said) for name, said in value.items()}


def _alias_in(words: tuple[str, ...]) -> str:
    """llama-server takes several, with commas between; the first is the id."""
    return (given.option_of(words, given.ALIAS) or "").partition(",")[0].strip()


def _soft_limit(entry: Table, around: Surroundings, context_size: int) -> int:
    if entry.has("softContextLimit"):
        return entry.whole("softContextLimit", 0)
    table = first_with("softContextRatio", entry, around.defaults)
    return int(context_size * table.number("softContextRatio", DEFAULT_RATIO, most=1.0) + _RATIO_SLACK)
