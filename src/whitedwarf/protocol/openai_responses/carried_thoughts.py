"""Thoughts inside `encrypted_content`, for clients that send back nothing else of a reasoning item.

The official server keeps thoughts and gives a name for them; ours keeps nothing, so the name carries the text, which is
no secret: the client has just been told it. Promises: what was carried comes out again; anything else is no thoughts.
"""

import base64
import binascii

_MARK = ".text."


def carrying(name: str, thoughts: str) -> str:
    """The item's name, with its thoughts in it."""
    return name + _MARK + base64.urlsafe_b64encode(thoughts.encode()).decode()


def carried(encrypted_content: object) -> str:
    """The thoughts in it, or none."""
    if not isinstance(encrypted_content, str):
        return ""
    _, mark, packed = encrypted_content.partition(_MARK)
    try:
        return base64.b64decode(packed, altchars=b"-_", validate=True).decode() if mark else ""
    except (binascii.Error, ValueError):  # another server's, or cut short
        return ""
