"""A message as one line that a terminal shows and does not obey."""


def one_line(text: str) -> str:
    """`text` with everything unprintable escaped: messages quote names out of files, which may hold anything."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
