"""A prompt that is complete: its segments, the images it needs, and how it reads as text.

Promises: the ranges of control tokens in the text are exactly its control segments; text never lies in one.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from whitedwarf.conversation.content import Content, ImageSource, image_sources, text_parts
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt import dsml
from whitedwarf.prompt.grounding import Grounding
from whitedwarf.prompt.passage import Passage
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import PUBLISHED, SpecialToken, Spellings


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A prompt as text; `special_ranges` are the (start, end) of its control tokens, in code points."""

    text: str
    special_ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """Passages in order. How a prompt is divided into passages may differ; its segments and images may not."""

    passages: tuple[Passage, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments in order."""
        return tuple(chain.from_iterable(passage.segments for passage in self.passages))

    @property
    def images(self) -> tuple[ImageSource, ...]:
        """The images in the order of their messages (there may be more images than places)."""
        return tuple(chain.from_iterable(passage.images for passage in self.passages))

    @property
    def size_bytes(self) -> int:
        """About what its texts and images take in memory."""
        return sum(passage.size_bytes for passage in self.passages)

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

    def __init__(self, spellings: Spellings, memory: RecipeMemory | None = None) -> None:
        self.memory = memory if spellings is PUBLISHED else None
        self._spellings = spellings
        self._grounding = Grounding(spellings)
        self._passages: list[Passage] = []
        self._segments: list[Segment] = []  # since the last passage
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
        self._segments += dsml.calls_block(calls, dialect)

    def spoken_calls(self, pieces: Sequence[str]) -> None:
        """A whole block of calls as the model wrote it: the texts around its DSML tokens."""
        first, *others = pieces
        self.text(first)
        for piece in others:
            self.token(SpecialToken.DSML)
            self.text(piece)

    def passage(self, key: Hashable | None, write: Callable[[], None]) -> None:
        """What `write` adds, which begins with a control token, as does what follows.

        The key says everything that it depends on; None where nothing can say it. What is remembered is not written.
        """
        if key is None or self.memory is None:
            write()
            return
        self._close()
        self._passages.append(self.memory.passages.recall(key, lambda: self._written(write)))

    def _written(self, write: Callable[[], None]) -> Passage:
        write()
        return self._taken(comes_again=True)

    def _close(self) -> None:
        if self._segments or self._images:
            self._passages.append(self._taken(comes_again=False))

    def _taken(self, *, comes_again: bool) -> Passage:
        passage = Passage(tuple(self._segments), tuple(self._images), comes_again)
        self._segments, self._images = [], []
        return passage

    def extend(self, segments: Iterable[Segment]) -> None:
        """Segments made elsewhere, without the empty ones."""
        self._segments += [segment for segment in segments if isinstance(segment, Control) or segment.text]

    def finish(self) -> Prompt:
        """What was collected."""
        self._close()
        return Prompt(tuple(self._passages))
