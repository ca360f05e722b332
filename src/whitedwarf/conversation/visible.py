"""What models and servers say, as a terminal may have it: with a dot for each character that it would obey."""

_SHOWN_AS = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay."""
    return text.translate(_SHOWN_AS)
