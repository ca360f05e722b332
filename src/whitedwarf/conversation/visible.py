"""What models, tools and servers say, as a terminal may have it: with a dot for each character that it would obey."""

_CONTROLS = (code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t")
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # the direction of text: what is read is not what is there
_SHOWN_AS = dict.fromkeys((*_CONTROLS, *_TURNING), "·")


def visible(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay. Any split gives the same."""
    return text.translate(_SHOWN_AS)
