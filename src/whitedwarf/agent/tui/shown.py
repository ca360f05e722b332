"""Text of models, tools and people as a terminal may have it: what it would obey, or what hides, is shown as a sign.

Control characters become their pictures (ESC is ␛), those that turn the direction of writing or separate lines in
their own way become their code points in angle brackets. Line ends and tabs stay; a carriage return before a line end
is dropped.
"""

_PICTURES = 0x2400
_C1 = range(0x80, 0xA0)
# Marks, embeddings, overrides, isolates; line and paragraph separator; the byte order mark inside a text.
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF)
_TAGS = range(0xE0000, 0xE0080)  # invisible letters
_SHOWN_AS = {
    **{code: chr(_PICTURES + code) for code in range(32) if chr(code) not in "\n\t"},
    127: "␡",
    **{code: f"⟨{code:04X}⟩" for code in (*_C1, *_TURNING)},
    **{code: f"⟨{code:X}⟩" for code in _TAGS},
    **dict.fromkeys(range(55296, 57344), "�"),  # lone surrogates cannot be written at all
}
TAB = 4


def shown(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay."""
    return text.replace("\r\n", "\n").translate(_SHOWN_AS)


def one_line(text: str) -> str:
    """The same on one line, with single spaces."""
    return " ".join(shown(text).split())


def shortened(text: str, most: int) -> str:
    """At most so many characters, with … where something was left out."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"
