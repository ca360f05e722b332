"""The line that Claude Code puts before its system prompt, different each time (spec/clients.md 3).

Left in, it would make every prompt a new one. Chat leaves out the first line of every system message that begins so,
Messages the first block of the system prompt.
"""

from whitedwarf.conversation.content import Content, IllustratedText

BILLING_HEADER = "x-anthropic-billing-header"
"""How the line begins."""

_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Unicode's, which is not quite Python's."""


def is_billing_block(text: str) -> bool:
    """Whether a block of a Messages system prompt is that line; there it may be in capitals."""
    return text[: len(BILLING_HEADER)].lower() == BILLING_HEADER


def without_billing_line(content: Content) -> Content:
    """A system message without its first line and the space after it, if that is the line."""
    if isinstance(content, str):
        return _without_line(content)
    first, *others = content.parts
    return IllustratedText((_without_line(first), *others), content.sources)


def _without_line(text: str) -> str:
    return text.partition("\n")[2].lstrip(_WHITE_SPACE) if text.startswith(BILLING_HEADER) else text
