"""HOST:PORT of a meeting place, and the range of layers, as people write them."""

import re

from whitedwarf.errors import UsageError

DEFAULT_PORT = 8790
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\[\]:/\s]+)(?::(\d{1,5}))?")
_LAYERS = re.compile(r"(\d{1,6}):(\d{1,6}|output)")


def parse_place(text: str) -> tuple[str, int]:
    """Host (an IPv6 address without its brackets) and port; UsageError for anything else."""
    found = _PLACE.fullmatch(text)
    port = int(found[2] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise UsageError(f"expected HOST or HOST:PORT of a meeting place (an IPv6 address in brackets), got {text!r}")
    return found[1].strip("[]"), port


def parse_layers(text: str, num_layers: int) -> range:
    """A:B, both included, or A:output for all from A on; UsageError for what the model does not have."""
    found = _LAYERS.fullmatch(text)
    if found is None:
        raise UsageError(f"--layers {text}: expected A:B, both included and counted from 0, or A:output")
    first, last = int(found[1]), num_layers - 1 if found[2] == "output" else int(found[2])
    if not first <= last < num_layers:
        raise UsageError(f"--layers {text}: this model has layers 0 to {num_layers - 1}, the first before the last")
    return range(first, last + 1)
