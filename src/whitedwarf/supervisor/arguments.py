"""Options in a command line that somebody else wrote: is one there, and what does it say?

Knows llama-server's names for what concerns us; pure.
"""

from collections.abc import Sequence

CONTEXT = ("-c", "--ctx-size")
ALIAS = ("-a", "--alias")
MODEL = ("-m", "--model")
ANY_MODEL = (*MODEL, "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-dr", "--docker-repo")
CACHE_K = ("-ctk", "--cache-type-k")
CACHE_V = ("-ctv", "--cache-type-v")
FLASH = ("-fa", "--flash-attn")
SLOTS = ("--slot-save-path",)
KEYS = ("--api-key", "-hft", "--hf-token")
OUR_CONTEXT = ("-c", "--ctx")
OUR_STATE = ("--kv-disk-dir",)
OUR_DRAIN = ("--drain-s",)


def has_option(arguments: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of these is there, as `--name value` or `--name=value`."""
    return any(word.partition("=")[0] in names for word in arguments)


def option_of(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """What follows it; of several the last, as programs take it."""
    found = None
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else (arguments[index + 1] if index + 1 < len(arguments) else None)
    return found


def whole_of(arguments: Sequence[str], names: Sequence[str]) -> int | None:
    """A whole number that follows it; None where it is not there or says something else."""
    value = option_of(arguments, names)
    return int(value) if value is not None and value.isascii() and value.isdecimal() else None


def without_keys(words: Sequence[str]) -> list[str]:
    """A command line that may be shown and kept: secrets are hidden."""
    shown: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if shown and shown[-1] in KEYS:
            shown.append("HIDDEN")
        else:
            shown.append(f"{name}=HIDDEN" if equals and name in KEYS else word)
    return shown
