"""What a child says while it loads, as a few words for people who wait. Pure.

llama-server says what it does in some lines (in many with -lv 4) and may draw a dot for each percent of the tensors;
`whitedwarf serve` says little, in words that can be shown. What neither says is guessed from what has been read.
"""

import re
from collections.abc import Sequence

_LONGEST = 80
_DOTS = re.compile(r"\.{3,}$")
_LOADING = "loading the model"
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"loaded meta data with|load_model: loading model", _LOADING),
        (r"loading model tensors", _LOADING),
        (r"offload(?:ing|ed) (\S+) (?:repeating )?layers to GPU", _LOADING + ": {0} layers on the GPU"),
        (r"constructing llama_context|llama_kv_cache.*size|initializing, n_slots", "making room for the context"),
        (r"warming up the model", "warming up"),
        (r"loading draft model|draft model", "loading the draft model"),
        (r"^(?:whitedwarf: )?((?:loading|reading|warming|unpacking)\b.*)$", "{0}"),
    )
)
_SMALL_BYTES = 64 << 20  # less than a program may read and take anyway
_STEP_PERCENT = 5


def with_share(text: str | None, worked_bytes: int, file_bytes: int) -> str | None:
    """With how much of the file has been read or taken in, where the text does not say how far it is."""
    if text not in (None, _LOADING) or file_bytes < _SMALL_BYTES:
        return text
    percent = min(99, 100 * worked_bytes // file_bytes) // _STEP_PERCENT * _STEP_PERCENT
    return f"{_LOADING}: about {percent} %" if percent else text


def loading_text(lines: Sequence[str]) -> str | None:
    """The newest step that these lines tell, the last of which need not be finished; None where they tell none."""
    for line in reversed(lines):
        text = _step(line)
        if text is not None:
            return text[:_LONGEST]
    return None


def _step(line: str) -> str | None:
    dots = _DOTS.search(line)
    if dots and line.strip(".") == "":
        return f"{_LOADING}: {min(len(line), 100)} %"
    for pattern, text in _STEPS:
        found = pattern.search(line)
        if found:
            return text.format(*found.groups())
    return None
