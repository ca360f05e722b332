"""What a session is beside its state: the exact tokens, and what was set; the last trailer of its file (flag bit 7).

All integers little-endian:

    0   "WDA"               3   version, 1
    4   u32 bytes of JSON   8   u32 tokens
    12  the JSON object, then u32 token[tokens]
    -4  CRC-32 of all before it

The tokens are all of the session, also those that the payload's state has not read; the text in the file, which ds4
goes by, is only what they spell. Keys of the object that are not known are left alone, those that lack have defaults.
Promises: what cannot be read raises FileFormatError and nothing else.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whitedwarf.agent.approval import Rule
from whitedwarf.agent.transcript import Ids
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import FileFormatError

MAGIC = b"WDA"
VERSION = 1
HEAD = struct.Struct("<3sBII")
CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class SteeringFacts:
    """The steering a session's state was made under; the digest says whether another one is the same."""

    file: str
    ffn: float
    attention: float
    digest: str


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What was set. `weights` is the mark of the model without any steering; 0 = not said."""

    thinking: Thinking = Thinking.HIGH
    approvals: Mapping[str, Rule] = field(default_factory=dict)  # by tool: what the user has allowed or denied
    steering: SteeringFacts | None = None
    workspace: str = ""
    tools: tuple[str, ...] = ()
    model: str = ""  # a name, for people
    weights: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """The trailer."""

    ids: Ids
    facts: SessionFacts


def encode_kept(kept: Kept) -> bytes:
    """The trailer's bytes."""
    document = json.dumps(_to_json(kept.facts), ensure_ascii=True, separators=(",", ":")).encode()
    ids = np.ascontiguousarray(kept.ids, "<u4").tobytes()
    body = HEAD.pack(MAGIC, VERSION, len(document), len(kept.ids)) + document + ids
    return body + CHECKSUM.pack(zlib.crc32(body))


def decode_kept(data: bytes, name: str) -> Kept:
    """Read a trailer; `name` is what errors call the file."""
    ids_at, end = _places(data, name)
    if zlib.crc32(data[:end]) != CHECKSUM.unpack_from(data, end)[0]:
        raise _damaged(name, "the checksum of its last part is wrong")
    ids = np.frombuffer(data, "<u4", (end - ids_at) // 4, ids_at)
    if len(ids) and int(ids.max()) >= 2**31:
        raise _damaged(name, "a token is no token id")
    return Kept(ids.astype(np.int32), _read_json(data[HEAD.size : ids_at], name))


def decode_facts(data: bytes, name: str) -> SessionFacts:
    """Only the facts, without a look at the tokens and the checksum."""
    ids_at, _ = _places(data, name)
    return _read_json(data[HEAD.size : ids_at], name)


def _places(data: bytes, name: str) -> tuple[int, int]:
    """Where the tokens begin and end."""
    if len(data) < HEAD.size + CHECKSUM.size:
        raise _damaged(name, f"only {len(data)} bytes are left of its last part")
    magic, version, json_bytes, num_ids = HEAD.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise _damaged(name, f"its last part is {magic!r} of version {version}, expected {MAGIC!r} of {VERSION}")
    ids_at = HEAD.size + json_bytes
    end = ids_at + 4 * num_ids
    if end + CHECKSUM.size != len(data):
        raise _damaged(name, f"its last part has {len(data)} bytes, expected {end + CHECKSUM.size}")
    return ids_at, end


def _to_json(facts: SessionFacts) -> dict[str, Any]:
    steering = facts.steering
    return {
        "thinking": facts.thinking.value,
        "approvals": {tool: rule.value for tool, rule in facts.approvals.items()},
        "steering": None if steering is None else {key: getattr(steering, key) for key in SteeringFacts.__slots__},
        "workspace": facts.workspace,
        "tools": list(facts.tools),
        "model": facts.model,
        "weights": facts.weights,
    }


def _read_json(document: bytes, name: str) -> SessionFacts:
    try:
        found = json.loads(document)
        return _from_json(found if isinstance(found, dict) else {})
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(name, f"what was set cannot be read ({error})") from error


def _from_json(found: dict[str, Any]) -> SessionFacts:
    approvals = _is(found.get("approvals", {}), dict)
    tools = _is(found.get("tools", []), list)
    return SessionFacts(
        thinking=Thinking(found.get("thinking", Thinking.HIGH)),
        approvals={_is(tool, str): Rule(rule) for tool, rule in approvals.items()},
        steering=_steering(found.get("steering")),
        workspace=_is(found.get("workspace", ""), str),
        tools=tuple(_is(tool, str) for tool in tools),
        model=_is(found.get("model", ""), str),
        weights=_is(found.get("weights", 0), int),
    )


def _steering(found: Any) -> SteeringFacts | None:
    if found is None:
        return None
    found = _is(found, dict)
    file, digest = (_is(found.get(key, ""), str) for key in ("file", "digest"))
    ffn, attention = (float(_is(found.get(key, 0.0), int | float)) for key in ("ffn", "attention"))
    return SteeringFacts(file, ffn, attention, digest)


def _is(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind}, got {type(value).__name__}")
    return value


def _damaged(name: str, problem: str) -> FileFormatError:
    return FileFormatError(f"{name}: {problem}: it is damaged, or of a later version. It is not used.")
