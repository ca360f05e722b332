"""`/__supervisor/`: what is loaded, for people with a browser.

Promises: the page is whole in itself — no script, nothing fetched from elsewhere, which its policy also forbids —, what
was not written here is escaped, and nothing of a prompt is on it.
"""

from collections.abc import Iterable
from html import escape
from urllib.parse import quote

from whitedwarf import __version__
from whitedwarf.supervisor.status import ModelStatus

PREFIX = "/__supervisor/"
PAGE_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem 1rem .3rem 0;vertical-align:top}"
    "th{font-weight:normal;color:#666}form{display:inline}td p{margin:0;color:#a40}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}a{color:#8ab4f8}"
    "th{color:#999}td p{color:#f96}}"
)
_COLUMNS = ("Model", "Port", "State", "Requests", "Released in", "Context", "Starts", "")


def page(models: Iterable[ModelStatus]) -> str:
    """The whole page; browsers load it again every five seconds."""
    head = "".join(f"<th>{title}" for title in _COLUMNS)
    rows = "".join(map(_row, models))
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>whitedwarf supervisor</title>\n'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">\n'
        f"<style>{_STYLE}</style>\n<h1>whitedwarf supervisor</h1>\n"
        f"<table><tr>{head}\n{rows}</table>\n<p>Version {escape(__version__)}. "
        f'<a href="{PREFIX}status">status</a> <a href="{PREFIX}metrics">metrics</a></p></html>\n'
    )


def _row(one: ModelStatus) -> str:
    context = f"{one.context_size or '?'}" + (f", soft limit {one.soft_limit}" if one.soft_limit else "")
    cells = (
        escape(one.alias if one.alias == one.key else f"{one.key} ({one.alias})"),
        str(one.public_port),
        _state(one),
        f"{one.in_flight} running, {one.waiting} waiting",
        "" if one.release_in_s is None else f"{one.release_in_s:.0f} s",
        context,
        str(one.start_count),
        "" if one.kind == "external" else _actions(one.key),
    )
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "\n"


def _state(one: ModelStatus) -> str:
    state = "elsewhere" if one.kind == "external" else one.state.value
    told = [text for text in (one.loading_text, one.failure, *one.warnings) if text]
    return escape(state) + "".join(f"<p>{escape(text)}" for text in told)


def _actions(key: str) -> str:
    model = quote(key, safe="")
    forms = "".join(
        f'<form method="post" action="{PREFIX}{verb}?model={model}"><button>{verb}</button></form> '
        for verb in ("start", "unload")
    )
    return f'{forms}<a href="{PREFIX}logs?model={model}">log</a>'
