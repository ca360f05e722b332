"""What models, tools and servers say, as a terminal may have it: with a dot for each character that it would obey."""

_CONTROLS = (code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t")
# The direction of text, and line ends of their own: what is read is not what is there.
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_TAGS = range(0xE0000, 0xE0080)  # invisible letters
_SHOWN_AS = dict.fromkeys((*_CONTROLS, *_TURNING, *_TAGS), "·")


def visible(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay. Any split gives the same."""
    return text.translate(_SHOWN_AS)
