"""A block of calls in the model's own words: from the ids of an answer, to and from the text that files keep of it.

The words are the texts before, between and after the block's DSML tokens, so that text that merely spells the token
stays text. Promises: put behind the answer's text they give the ids' own text again. Only closed blocks count.
"""

import re
from collections.abc import Iterator, Sequence

from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

Words = tuple[str, ...]

DSML = SpecialToken.DSML.value
_END = re.compile(r"\A ?(?:tool_)?calls>")
_ENDS = tuple(f"</{DSML}{word}>".encode() for word in ("tool_calls", " calls"))
_TAG = re.compile(
    r"""\ ?(?: (?P<B> (?:tool_)?calls> \s*) | (?P<I> invoke\ name="[^"]*"> \s*) | (?P<i> invoke> \s*)
    | (?P<P> parameter\ name="[^"]*"\ string="(?:true|false)"> .*) | (?P<p> parameter> \s*) ) </?""",
    re.DOTALL | re.VERBOSE,
)
_CALLS = re.compile("B(?:I(?:Pp)*i)+")
_BARE = len(f"</{DSML}".encode())
_TAGS = re.compile(f"<(/?){DSML}(?:tool_calls| calls)>".encode())


def spoken_words(ids: Sequence[int], content: str, tokenizer: Tokenizer) -> Words | None:
    """The words of the block that ends an answer; `content` is the text before it as clients were told.

    None where there is no such block, or it does not follow the text, or holds other control tokens.
    """
    dsml = tokenizer.special_id(SpecialToken.DSML)
    said = _after(ids, tokenizer.special_id(SpecialToken.THINK_CLOSE))
    pieces = _pieces(said, dsml, tokenizer)
    if pieces is None or len(pieces) < 3 or not pieces[0].startswith(content):
        return None
    before = pieces[0][len(content) :]
    end = _END.match(pieces[-1])
    if end is None or not pieces[-2].endswith("</") or before.strip() != "<":
        return None
    return (before, *pieces[1:-1], end[0])


def spelt(words: Words) -> bytes:
    """As a file keeps it, with what stands before its first tag."""
    return DSML.join(words).encode()


def blocks_in(text: bytes) -> list[bytes]:
    """All whole blocks that a text spells, in order, each from its first tag on.

    One that lacks nothing but some of its last word is whole: the last token of an answer is drawn, but never run.
    """
    whole = text + _missing_end(text)
    return [whole[begin:end] for begin, end in _block_ranges(whole)]


def says_only_calls(words: Words) -> bool:
    """Whether the block is calls and nothing else: no words between its tags, where no reader looks, and one block."""
    kinds = [_TAG.fullmatch(piece) for piece in words[1:-1]]
    return _CALLS.fullmatch("".join([kind.lastgroup or "" if kind else "?" for kind in kinds])) is not None


def _block_ranges(text: bytes) -> Iterator[tuple[int, int]]:
    """From the first opening tag to the first closing one, and so on; in one pass, whatever is left open."""
    begin: int | None = None
    for tag in _TAGS.finditer(text):
        if tag[1] and begin is not None:
            yield begin, tag.end()
            begin = None
        elif not tag[1] and begin is None:
            begin = tag.start()


def words_of(block: bytes) -> Words | None:
    """The words of a block that a file kept; None where it is none."""
    try:
        pieces = tuple(block.decode().split(DSML))
    except UnicodeDecodeError:
        return None
    is_whole = len(pieces) >= 3 and pieces[0].strip() == "<" and _END.fullmatch(pieces[-1])
    return pieces if is_whole else None


def _missing_end(text: bytes) -> bytes:
    ends = (end[cut:] for end in _ENDS for cut in range(_BARE, len(end)) if text.endswith(end[:cut]))
    return next(ends, b"")


def _after(ids: Sequence[int], marker: int) -> list[int]:
    last = max((place for place, token in enumerate(ids) if token == marker), default=-1)
    return list(ids[last + 1 :])


def _pieces(ids: Sequence[int], dsml: int, tokenizer: Tokenizer) -> list[str] | None:
    """The texts around the DSML tokens."""
    special = set(tokenizer.vocabulary.special_ids.values()) - {dsml}
    stretches: list[list[int]] = [[]]
    for token in ids:
        if token in special:
            return None
        if token == dsml:
            stretches.append([])
        else:
            stretches[-1].append(token)
    try:
        return [b"".join(map(tokenizer.token_bytes, stretch)).decode() for stretch in stretches]
    except ValueError:
        return None
