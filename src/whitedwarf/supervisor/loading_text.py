"""What a child says while it loads, as a few words for people who wait. Pure.

llama-server says what it does in many lines and draws a dot for each percent of the tensors; `whitedwarf serve` says
little, in words that can be shown.
"""

import re
from collections.abc import Sequence

_LONGEST = 80
_DOTS = re.compile(r"\.{3,}$")
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"loaded meta data with", "reading the model's header"),
        (r"loading model tensors", "loading tensors"),
        (r"offload(?:ing|ed) (\d+)\D+?layers to GPU", "loading: {0} layers on the GPU"),
        (r"offloaded (\d+/\d+) layers", "loading: {0} layers on the GPU"),
        (r"constructing llama_context|llama_kv_cache.*size", "making room for the context"),
        (r"warming up the model", "warming up"),
        (r"loading draft model|draft model", "loading the draft model"),
        (r"server is listening", "ready"),
        (r"^(?:whitedwarf: )?((?:loading|reading|warming|unpacking)\b.*)$", "{0}"),
    )
)


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
        return f"loading tensors: {min(len(line), 100)} %"
    for pattern, text in _STEPS:
        found = pattern.search(line)
        if found:
            return text.format(*found.groups())
    return None
