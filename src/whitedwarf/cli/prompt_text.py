"""Where the text of a prompt comes from: the command line, a file, or standard input; never two of them."""

import sys
from pathlib import Path

from whitedwarf.config import SourceSettings
from whitedwarf.errors import FileFormatError, UsageError

MOST_BYTES = 1 << 30  # a device without an end is refused, not read


def prompt_text(source: SourceSettings) -> str | None:
    """The prompt, or None when none is given; UsageError for two sources or a file that cannot be read."""
    if source.prompt is not None and source.prompt_file is not None:
        raise UsageError("--prompt and --prompt-file exclude each other: give one prompt")
    if source.prompt_file == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    return source.prompt if source.prompt_file is None else read_text(source.prompt_file)


def required_prompt(source: SourceSettings) -> str:
    """The prompt; UsageError when none is given."""
    text = prompt_text(source)
    if text is None:
        raise UsageError("no prompt: give one with --prompt TEXT or --prompt-file FILE")
    return text


def read_text(path: str) -> str:
    """A file as UTF-8 text, line ends untouched."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:  # ~name without such a user; a NUL in the name
        raise UsageError(f"cannot read {path!r}: {error}") from error
    if len(data) > MOST_BYTES:
        raise FileFormatError(f"{path} has more than {MOST_BYTES >> 20} MiB; expected a text")
    return _decoded(data, path)


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{where}: expected UTF-8 text, found byte 0x{data[error.start]:02x} at offset {error.start}; "
            "convert it first"
        ) from error
