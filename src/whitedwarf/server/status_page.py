"""`GET /`: what runs here and how to use it, for people: a page for browsers, plain text for everybody else.

Promises: the page is whole in itself — no script, nothing fetched from elsewhere, which its policy also forbids — and
everything that was not written here is escaped.
"""

from dataclasses import dataclass
from html import escape

from whitedwarf import __version__
from whitedwarf.server.facts import Facts
from whitedwarf.server.metrics import Load
from whitedwarf.server.models import ServedModel

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "vary": "accept",
}

ADDRESSES = {
    "OpenAI": ("/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/models"),
    "Anthropic": ("/v1/messages", "/v1/messages/count_tokens"),
    "Server": ("/health", "/metrics", "/props", "/openapi.json"),
}
_LINKED = ("/v1/models", *ADDRESSES["Server"])
_HINT = "OpenAI's clients take /v1 as their base address, Anthropic's clients take /. Any model name will do."
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "th{text-align:left;padding-right:2rem;font-weight:normal;color:#666}code{font:14px ui-monospace,monospace}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}a{color:#8ab4f8}th{color:#999}}"
)


@dataclass(frozen=True, slots=True)
class StatusPage:
    """One moment of a server."""

    model: ServedModel
    facts: Facts
    load: Load

    def rows(self) -> dict[str, str]:
        """What is told, by its title."""
        facts, load = self.facts, self.load
        stats = None if facts.prefix_stats is None else facts.prefix_stats()
        rows = {
            "Model": f"{self.model.name} as {self.model.id}",
            "Context": f"{self.model.context_length} tokens",
            "Requests": f"{load.running} running (at most {facts.total_slots}), {load.waiting} waiting",
            "Up": _duration_text(facts.uptime_s),
            "Version": f"whitedwarf {__version__}, backend {facts.backend}, recipe {facts.recipe}",
        }
        if facts.power_percent != 100:
            rows["Power"] = f"{facts.power_percent} %"
        if facts.steering is not None:
            rows["Steering"] = facts.steering_text
        if stats is not None:
            held = f"{stats.held_bytes >> 20} of {stats.budget_bytes >> 20} MiB"
            rows["Prompts in memory"] = f"{stats.num_checkpoints} checkpoints, {held}"
        return rows

    def text(self) -> str:
        """For a terminal."""
        rows = "".join(f"{title + ':':<20}{value}\n" for title, value in self.rows().items())
        places = "".join(f"{kind + ':':<12}{'  '.join(paths)}\n" for kind, paths in ADDRESSES.items())
        return f"whitedwarf serves {self.model.name}.\n\n{rows}\n{places}\n{_HINT}\n"

    def html(self) -> str:
        """For a browser."""
        rows = "".join(f"<tr><th>{escape(title)}<td>{escape(value)}\n" for title, value in self.rows().items())
        places = "".join(f"<tr><th>{kind}<td>{' '.join(map(_place, paths))}\n" for kind, paths in ADDRESSES.items())
        title = f"whitedwarf: {escape(self.model.name)}"
        return (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>\n'
            f"<h1>{title}</h1>\n<table>{rows}</table>\n<h2>Addresses</h2>\n<table>{places}</table>\n"
            f"<p>Clients of OpenAI's interface use <code>/v1</code> as their base address, those of Anthropic's "
            f"<code>/</code>. Any model name will do.</p></html>\n"
        )


def _place(path: str) -> str:
    shown = f"<code>{path}</code>"
    return f'<a href="{path}">{shown}</a>' if path in _LINKED else shown


def _duration_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
