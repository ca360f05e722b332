"""What a client has to be told to reach each model through its public port: where, by which name, how long a context.

Pure. routes_dsh.py and its siblings write it down in each client's form.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import Backend, ManagedModel, Model, SupervisorConfig

KEY_VARIABLE = "WHITEDWARF_API_KEY"
"""Where clients find a key when the supervisor asks for one."""
_PREFILL_S = 300.0  # what a client grants a long prompt, beside the start of its model
_AGENTS_ANSWER = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One model as clients see it.

    `slug` names it where a client wants a plain word, each once. `context_size` 0: unknown. `silence_s` is how long its
    first token may take; None for a server that is not ours to start.
    """

    slug: str
    key: str
    alias: str
    origin: str
    context_size: int
    soft_limit: int
    silence_s: float | None
    asks_for_key: bool
    is_our_engine: bool = False

    @property
    def base_url(self) -> str:
        """As OpenAI's clients want it."""
        return f"{self.origin}/v1"

    @property
    def usable_context(self) -> int:
        """How long a prompt may be before it is refused; 0 where nobody knows."""
        return self.soft_limit or self.context_size


def routes_of(config: SupervisorConfig) -> list[Route]:
    """In the order of the config."""
    slugs = _slugs(config.models)
    return [_route(model, slug, config) for model, slug in zip(config.models, slugs, strict=True)]


def chosen(routes: Sequence[Route], name: str | None) -> Route:
    """The one of this name or alias, else the first; UsageError lists them."""
    if name is None:
        return routes[0]
    found = [route for route in routes if route.key == name] or [route for route in routes if route.alias == name]
    if not found:
        raise UsageError(f"there is no model {name!r}; known are {', '.join(route.key for route in routes)}")
    return found[0]


def told_context(route: Route, *, is_exact: bool) -> int:
    """What a client that compacts by its context is told: it does so before the soft limit refuses its prompt."""
    return route.context_size if is_exact else route.usable_context


def answer_limit(context: int) -> int:
    """The longest answer to ask for: clients compact that much before the context's end."""
    return min(_AGENTS_ANSWER, context // 4)


def reachable(host: str) -> str:
    """Where this machine finds a server that listens there."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.is_unspecified:
        address = ipaddress.ip_address("::1" if address.version == 6 else "127.0.0.1")
        host = str(address)
    return f"[{host}]" if address.version == 6 else host


def _route(model: Model, slug: str, config: SupervisorConfig) -> Route:
    silence = model.start_timeout_s + model.settle_s + _PREFILL_S if isinstance(model, ManagedModel) else None
    return Route(
        slug=slug,
        key=model.key,
        alias=model.alias,
        origin=f"http://{reachable(config.host)}:{model.public_port}",
        context_size=model.context_size,
        soft_limit=model.soft_context_limit,
        silence_s=silence,
        asks_for_key=config.api_key_file is not None,
        is_our_engine=isinstance(model, ManagedModel) and model.backend is Backend.WHITEDWARF,
    )


def _slugs(models: Sequence[Model]) -> list[str]:
    """A word of ASCII for each; the port makes the difference where names do not."""
    words = [re.sub(r"[^a-z0-9]+", "-", model.key.lower()).strip("-") for model in models]
    times = Counter(words)
    slugs = []
    for model, word in zip(models, words, strict=True):
        if times[word] > 1 or not word or re.fullmatch(r".*-[0-9]+", word):
            word = f"{word or 'model'}-{model.public_port}"
        slugs.append(word)
    return slugs
