"""The files of rendered prompts that importance is collected over (product.md E.2).

Blocks, each behind a line that begins with a marker; a file without such a line is one prompt. Pure.
"""

from collections.abc import Iterable, Iterator

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.segments import Control, Segment, Text, parse_rendered
from whitedwarf.prompt.special import RENDERED_CHAT_TOKENS, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

MARKER = "===== WHITEDWARF_PROMPT"
MARKERS = (MARKER, "===== DS4_IMATRIX_PROMPT")
CHAT_TOKENS = (*RENDERED_CHAT_TOKENS, SpecialToken.SYSTEM, SpecialToken.LATEST_REMINDER)  # the last two are V4.1's


def read_blocks(text: str, source: str) -> list[str]:
    """The prompts, trimmed, without empty ones. Raises FileFormatError where there is none, or text before the first
    marker."""
    blocks: list[list[str]] = [[]]
    for line in text.removeprefix("\N{BYTE ORDER MARK}").split("\n"):
        if line.startswith(MARKERS):
            blocks.append([])
        else:
            blocks[-1].append(line)
    first, *marked = ("\n".join(lines).strip() for lines in blocks)
    if marked and first:
        raise FileFormatError(
            f"{source}: text before the first line that begins with {MARKER!r}: {first[:60]!r}; expected every prompt "
            "behind such a line, or no such line and one prompt"
        )
    found = [block for block in marked or [first] if block]
    if not found:
        raise FileFormatError(f"{source}: expected at least one prompt, found none")
    return found


def block_text(facts: Iterable[str], rendered: str) -> str:
    """One block as it stands in a file; the facts, such as id and category, are words on the marker's line."""
    return f"{' '.join((MARKER, *facts))} =====\n{rendered}\n\n"


def block_ids(tokenizer: Tokenizer, rendered: str) -> list[int]:
    """Ids of a rendered chat: what spells a control token of chats becomes that token, as far as there are any."""
    known = tuple(token for token in CHAT_TOKENS if token in tokenizer.vocabulary.special_ids)
    return tokenizer.encode_segments(parse_rendered(rendered, known))


def spells_control(text: str) -> bool:
    """Whether plain text holds the spelling of a control token, or a line that begins like a marker."""
    return any(token in text for token in CHAT_TOKENS) or any(f"\n{marker}" in f"\n{text}" for marker in MARKERS)


def checked(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The same; ValueError for plain text that a file of rendered prompts would turn into something else."""
    for segment in segments:
        match segment:
            case Text(text) if spells_control(text):
                raise ValueError(f"text that spells a control token or a marker: {text[:80]!r}")
            case Control(token) if token not in CHAT_TOKENS:
                raise ValueError(f"a control token that rendered chats cannot have: {token}")
        yield segment
