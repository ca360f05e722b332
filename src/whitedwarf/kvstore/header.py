"""The header of a KVC file (product.md B.18, model.md 7.2), and how a wrong field is told.

All integers are little-endian. ds4 reserves bytes 21 to 23; what of ours lies there is 0 in its files.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.payload import PayloadKind

MAGIC = b"KVC"
VERSION = 1
HEADER = struct.Struct("<3s5B3I2BH3Q")
FLAGS_OFFSET, HITS_OFFSET, LAST_USED_OFFSET = 6, 12, 32  # what is changed in place

PAYLOAD_KINDS: dict[int, PayloadKind] = {0: PayloadKind.DS4} | {kind: kind for kind in PayloadKind}  # by byte 20

HAS_TOOLS = 1  # a map of tool calls follows the payload
RESPONSES_VISIBLE = 2  # the key text is what a Responses client will send again, not what the tokens say
THINKING_VISIBLE = 4  # the same for a chat without tools whose reasoning the client drops
HAS_TITLE = 8  # an agent's session: its title follows, after the map if there is one
HAS_FACTS = 128  # ours: what else an agent's session needs follows last
KNOWN_FLAGS = HAS_TOOLS | RESPONSES_VISIBLE | THINKING_VISIBLE


class Reason(IntEnum):
    """Why a prefix was saved."""

    UNKNOWN = 0
    COLD = 1
    CONTINUED = 2
    EVICT = 3
    SHUTDOWN = 4
    AGENT_SYSTEM = 5
    AGENT_SESSION = 6


@dataclass(frozen=True, slots=True)
class Header:
    """The first 48 bytes. `row_kind` and `model_mark` are ours, in bytes that ds4 reserves; 0 = not said."""

    quant_bits: int  # 2 or 4: of the routed experts
    reason: Reason
    num_tokens: int
    context_length: int  # of the session that saved
    payload_bytes: int
    created: int  # unix seconds, as `last_used`
    last_used: int
    hits: int = 0
    flags: int = 0
    model_id: int = 0  # 0 Flash, 1 PRO
    payload_kind: PayloadKind = PayloadKind.DS4
    row_kind: int = 0  # how the saver kept its rows in memory
    model_mark: int = 0  # of the weights

    def to_bytes(self) -> bytes:
        return HEADER.pack(
            MAGIC,
            VERSION,
            self.quant_bits,
            self.reason,
            self.flags,
            self.model_id,
            self.num_tokens,
            self.hits,
            self.context_length,
            self.payload_kind,
            self.row_kind,
            self.model_mark,
            self.created,
            self.last_used,
            self.payload_bytes,
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> "Header":
        """Raises FileFormatError naming the field, what it holds and what it may hold."""
        if len(data) < HEADER.size:
            raise refusal(name, "header", f"{len(data)} bytes", f"{HEADER.size}")
        fields = HEADER.unpack_from(data)
        magic, version, bits, reason, flags, model, tokens, hits, context, kind, rows, mark = fields[:12]
        created, last_used, payload_bytes = fields[12:]
        expect(magic == MAGIC, name, "magic", magic, repr(MAGIC))
        expect(version == VERSION, name, "version", version, str(VERSION))
        expect(bits in (2, 4), name, "routed quant bits", bits, "2 or 4")
        expect(tokens != 0, name, "token count", tokens, "at least 1")
        expect(kind in PAYLOAD_KINDS, name, "payload ABI", kind, f"one of {sorted(PAYLOAD_KINDS)}")
        payload = PAYLOAD_KINDS[kind]
        why = Reason(reason) if reason in list(Reason) else Reason.UNKNOWN
        times = created, last_used
        return cls(bits, why, tokens, context, payload_bytes, *times, hits, flags, model, payload, rows, mark)


def expect(is_right: bool, name: str, subject: str, found: object, expected: str) -> None:
    if not is_right:
        raise refusal(name, subject, str(found), expected)


def refusal(name: str, subject: str, found: str, expected: str) -> FileFormatError:
    return FileFormatError(f"{name}: {subject}: found {found}; expected {expected}. It is not used; delete it.")
