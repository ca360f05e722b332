"""From a prompt's segments to its ids, given the ids of each piece of text: two loops over thousands of small things.

Promises: `segment_parts` and `joined_ids` are the native ones where the native module was built; the functions here say
in Python what those do, and stand in for them.
"""

from collections.abc import Callable, Iterable, Mapping

from whitedwarf.prompt.segments import Segment, Text
from whitedwarf.prompt.special import SpecialToken

__all__ = ["Part", "joined_ids", "python_ids", "python_parts", "segment_parts"]

Part = str | int  # a piece of text that is tokenised on its own, or the id of a control token
Cut = Callable[[str], list[str]]


def python_parts(
    segments: Iterable[Segment], text_type: type[Text], special_ids: Mapping[SpecialToken, int], longest: int, cut: Cut
) -> list[Part]:
    """The parts in order: neighbouring texts are one, empty ones none, and those longer than `longest` are cut.

    KeyError for a control token without id.
    """
    parts: list[Part] = []
    texts: list[str] = []  # of the stretch that is not yet over
    for segment in segments:
        if isinstance(segment, Text):
            texts.append(segment.text)
            continue
        parts += _stretch(texts, longest, cut)
        texts.clear()
        parts.append(special_ids[segment.token])
    return parts + _stretch(texts, longest, cut)


def _stretch(texts: list[str], longest: int, cut: Cut) -> list[str]:
    text = texts[0] if len(texts) == 1 else "".join(texts)
    if len(text) > longest:
        return cut(text)
    return [text] if text else []


def python_ids(parts: list[Part], known: Mapping[str, list[int]]) -> list[int]:
    """The ids of all parts."""
    ids: list[int] = []
    for part in parts:
        if isinstance(part, int):
            ids.append(part)
        else:
            ids += known[part]
    return ids


try:
    from whitedwarf._native import joined_ids, segment_parts
except ImportError:
    joined_ids, segment_parts = python_ids, python_parts
