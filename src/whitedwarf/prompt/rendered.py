"""A prompt that is complete: its segments, the images it needs, and how it reads as text.

Promises: the ranges of control tokens in the text are exactly its control segments; text never lies in one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.content import Content, ImageSource, image_sources, text_parts
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt import dsml
from whitedwarf.prompt.call_memory import CallMemory
from whitedwarf.prompt.grounding import Grounding
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import PUBLISHED, SpecialToken, Spellings


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A prompt as text; `special_ranges` are the (start, end) of its control tokens, in code points."""

    text: str
    special_ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Segments in order, and the images in the order of their messages (there may be more images than places)."""

    segments: tuple[Segment, ...]
    images: tuple[ImageSource, ...] = ()

    def rendered(self, spellings: Spellings = PUBLISHED) -> RenderedText:
        """As text; a token with an empty spelling has no range."""
        pieces: list[str] = []
        ranges: list[tuple[int, int]] = []
        position = 0
        for segment in self.segments:
            piece = segment.text if isinstance(segment, Text) else spellings.of(segment.token)
            if isinstance(segment, Control) and piece:
                ranges.append((position, position + len(piece)))
            pieces.append(piece)
            position += len(piece)
        return RenderedText("".join(pieces), tuple(ranges))


_CONTROLS = {token: Control(token) for token in SpecialToken}


class PromptBuilder:
    """Collects a prompt from left to right."""

    def __init__(self, spellings: Spellings, memory: CallMemory | None = None) -> None:
        self._memory = memory
        self._spellings = spellings
        self._grounding = Grounding(spellings)
        self._segments: list[Segment] = []
        self._images: list[ImageSource] = []

    def spells(self, token: SpecialToken) -> bool:
        """Whether the token has a spelling that is not empty."""
        return self._spellings.of(token) != ""

    def token(self, token: SpecialToken) -> None:
        """A control token of the template."""
        self._segments.append(_CONTROLS[token])

    def text(self, text: str) -> None:
        """Plain text, whatever it spells."""
        if text:
            self._segments.append(Text(text))

    def content(self, content: Content) -> None:
        """What a message says, with a token at each place for an image."""
        first, *others = text_parts(content)
        self.text(first)
        for part in others:
            self.token(SpecialToken.IMAGE)
            self.text(part)
        self._images += image_sources(content)

    def own_words(self, text: str) -> None:
        """What the model itself said, in which grounding tokens are tokens."""
        self.extend(self._grounding.segments(text))

    def calls(self, calls: Sequence[ToolCall], dialect: dsml.Dialect) -> None:
        """A whole block of calls."""
        if self._memory is None:
            self._segments += dsml.calls_block(calls, dialect)
        else:
            self._segments += self._memory.block(calls, dialect.calls, lambda: dsml.calls_block(calls, dialect))

    def extend(self, segments: Iterable[Segment]) -> None:
        """Segments made elsewhere, without the empty ones."""
        self._segments += [segment for segment in segments if isinstance(segment, Control) or segment.text]

    def finish(self) -> Prompt:
        """What was collected."""
        return Prompt(tuple(self._segments), tuple(self._images))
