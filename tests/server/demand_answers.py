"""Asking a real server over a scripted engine, in each dialect, streamed and whole (demand.md 1.1 "SE" and "RE").

`asked` checks E0 of every answer: HTTP 200, each line of the stream JSON in UTF-8 under its own event name, one last
event and nothing after it, and all that protocol.scripted_dialects.add_up finds (clean fields, one finish reason,
whole arguments, stream and body alike).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from fakes.gates import PATIENCE_S
from fakes.scripted_server import TOKENIZER, Served, serving
from protocol.scripted_dialects import DIALECTS, Object, Script, Shown, add_up
from whitedwarf.prompt.special import SpecialToken

Line = dict[str, Any]
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
TURNS = {"chat": "messages", "messages": "messages", "responses": "input"}
SPELT = re.compile("(" + "|".join(re.escape(token) for token in SpecialToken) + ")")
in_each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@dataclass(frozen=True)
class Answer:
    """The same answer told twice: what it shows, its events, its body, and the headers of both."""

    shown: Shown
    events: list[Object]
    body: Object
    headers: tuple[httpx2.Headers, httpx2.Headers]


def history(dialect: str, *turns: tuple[str, Any], **members: Any) -> Script:
    """A request with these turns, each a role and a content, and no tools."""
    said = [{"role": role, "content": content} for role, content in turns]
    return Script(dialect, tools=(), members={TURNS[dialect]: said, **members})


def units(text: str) -> list[str]:
    """The characters of a text; a control token is one, as it is to the model."""
    return [unit for part in SPELT.split(text) for unit in ([part] if SPELT.fullmatch(part) else part)]


def line(pieces: Iterable[str], **members: Any) -> Line:
    """A script's line that says these pieces; what spells a control token is one."""
    parts = [part for piece in pieces for part in SPELT.split(piece) if part]
    return {"pieces": [{"special": part} if SPELT.fullmatch(part) else part for part in parts], **members}


def whole_and_in_characters(text: str, **members: Any) -> tuple[Line, ...]:
    """Two lines that say the same: as the tokenizer cuts it, and one character at a time."""
    return line([text], **members), line(units(text), **members)


def cut_anywhere(text: str, **members: Any) -> tuple[Line, ...]:
    """Lines that say the same: whole, one character at a time, and cut in two at every place."""
    single = units(text)
    halves = [line(["".join(single[:at]), "".join(single[at:])], **members) for at in range(1, len(single))]
    return (*whole_and_in_characters(text, **members), *halves)


def asked(served: Served, script: Script) -> Answer:
    """Ask twice, for a stream and for a body; both have to be the same answer."""
    with httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        return _asked(client, script)


def answer(script: Script, *lines: Line, **server: Any) -> Answer:
    """What a server says whose model says this, whichever of the lines it is; the first one's answer."""
    twice = [one for said in lines for one in (said, said)]
    with serving(*twice, **server) as served, httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        answers = [_asked(client, script) for _ in lines]
    assert {told.shown for told in answers} == {answers[0].shown}
    return answers[0]


def shown(script: Script, *lines: Line) -> Shown:
    """What the client has in the end."""
    return answer(script, *lines).shown


def prompt_ids(served: Served, script: Script) -> tuple[int, ...]:
    """What reaches this server's engine for the request, asked once and not streamed."""
    sent = httpx2.post(served.url + PATHS[script.dialect], json=script.body(), timeout=PATIENCE_S)
    assert sent.status_code == 200, sent.text
    return served.last.ids


def prompt_text(served: Served, script: Script) -> str:
    """The same with its control tokens spelt out."""
    ids, spelt = prompt_ids(served, script), {token: name for name, token in TOKENIZER.vocabulary.special_ids.items()}
    parts: list[str] = []
    plain: list[int] = []
    for one in (*ids, -1):
        if one in spelt or one == -1:
            parts += [TOKENIZER.decode(plain), spelt.get(one, "")]
            plain = []
        else:
            plain.append(one)
    return "".join(parts)


def refused(served: Served, script: Script, status: int = 400) -> Object:
    """The error of a request that must not reach the engine, streamed or not."""
    last = served.engine.last_received
    for is_streamed in (False, True):
        body = {**script.body(), "stream": is_streamed}
        told = httpx2.post(served.url + PATHS[script.dialect], json=body, timeout=PATIENCE_S)
        assert told.status_code == status, told.text
    assert served.engine.last_received == last
    error: Object = told.json()["error"]
    return error


def events_of(answer: httpx2.Response, dialect: str) -> list[Object]:
    """The events of a whole stream, after its form was found right."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.content.decode("utf-8", "strict").split("\n\n")
    assert blocks.pop() == "", "the stream ends within an event"
    if dialect == "chat":
        assert blocks.pop() == "data: [DONE]"
    return [event for block in blocks if (event := _event(block, dialect)) is not None]


def _event(block: str, dialect: str) -> Object | None:
    if block.startswith(":"):  # a comment
        return None
    *names, data = block.split("\n")
    event: Object = json.loads(data.removeprefix("data: "))
    assert names == ([] if dialect == "chat" else [f"event: {event['type']}"])
    return event


def _asked(client: httpx2.Client, script: Script) -> Answer:
    path, body = PATHS[script.dialect], script.body()
    streamed = client.post(path, json={**body, "stream": True})
    events = events_of(streamed, script.dialect)
    whole = client.post(path, json=body)
    assert whole.status_code == 200, whole.text
    telling = [event for event in events if event.get("type") not in ("ping", "keepalive")]
    seen = add_up(script.dialect, telling, whole.json())
    return Answer(_plain(seen), events, whole.json(), (streamed.headers, whole.headers))


def _plain(seen: Shown) -> Shown:
    """With the arguments of whole calls as Python writes them."""
    calls = tuple((name, _as_python(arguments)) for name, arguments in seen.calls)
    return replace(seen, calls=calls)


def _as_python(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except json.JSONDecodeError:
        return arguments
