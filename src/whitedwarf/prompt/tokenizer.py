"""Text to token ids and back, for DeepSeek V4, built from GGUF metadata.

Promises: ids equal those of DeepSeek's own tokenizer.json; `encode` takes plain text and never yields a control token,
whatever the text spells; control tokens come only from `encode_segments`. Encoding releases the GIL.
The native encoder does the work (byte_pairs.py); Hugging Face's, here, says what is right and stands in for it.
Does not know chats: see encode_v4.py. Spec: product.md 0.3, model.md 4.2, recipe.md 10.
"""

import codecs
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Regex
from tokenizers import Tokenizer as HfTokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as PreSequence

from whitedwarf.prompt.assembly import Part, joined_ids, segment_parts
from whitedwarf.prompt.bounded_cache import BoundedCache
from whitedwarf.prompt.byte_pairs import PlainEncoder, check_merges, native_encoder, well_formed
from whitedwarf.prompt.passage import Passage
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.segment_cache import DEFAULT_CAPACITY_BYTES, PIECE_LENGTH, SegmentCache, pieces
from whitedwarf.prompt.segments import Segment, Text, parse_rendered
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.vocabulary import Vocabulary

Ids: TypeAlias = npt.NDArray[np.int32]

# DeepSeek's pre-tokenizer ("joyai-llm"): digits in threes, then CJK and kana runs, then everything else.
SPLIT_PATTERNS = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "|".join(
        (
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+""",  # one ASCII sign and the ASCII letters it leads
            "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",  # letters and marks, with one leading blank or other character
            " ?[\\p{P}\\p{S}]+[\r\n]*",  # signs, with a leading space and the line ends after them
            "\\s*[\r\n]+",
            r"\s+(?!\S)",  # blanks, but the last one stays for the word that follows
            r"\s+",
        )
    ),
)

_BEGINNING = 12  # characters


class Tokenizer:
    """DeepSeek V4's byte-level BPE. Immutable but for what it remembers, so it may be shared between threads."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: PlainEncoder | None = None,
        cache_bytes: int = DEFAULT_CAPACITY_BYTES,
    ) -> None:
        """With another encoder than the native one, or another size of the memory for stretches of prompts."""
        self.vocabulary = vocabulary
        self._encoder = encoder or native_encoder(vocabulary) or ReferenceEncoder(vocabulary)
        self.cache = SegmentCache(cache_bytes)
        self.passages: BoundedCache[Passage, bytes] = BoundedCache(cache_bytes, _passage_bytes)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> "Tokenizer":
        """Build from a GGUF's `tokenizer.ggml.*` keys; raises FileFormatError naming the key that is wrong."""
        return cls(Vocabulary.from_metadata(metadata))

    @property
    def vocab_size(self) -> int:
        """Number of tokens, control tokens included."""
        return len(self.vocabulary.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no control token, whatever is spelt. Lone surrogates become U+FFFD."""
        return self._encode([text])[0]

    def encode_segments(self, segments: Iterable[Segment]) -> list[int]:
        """Ids of a prompt made of text and control tokens; each stretch of text is tokenised on its own, and once.

        What is tokenised here is remembered (segment_cache.py): a conversation's next turn costs its new part only.
        """
        parts = self._parts(segments)
        known = self.cache.take([part for part in parts if isinstance(part, str)], self._encode)
        return joined_ids(parts, known)

    def encode_prompt(self, prompt: Prompt) -> Ids:
        """The same ids as an array, which is read-only; passages that come again are remembered whole."""
        again = [passage for passage in prompt.passages if passage.comes_again]
        new = [passage for passage in prompt.passages if not passage.comes_again]
        known = self.passages.take(again, self._encode_passages)
        known.update(zip(new, self._encode_passages(new), strict=True))
        return np.frombuffer(b"".join([known[passage] for passage in prompt.passages]), np.int32)

    def forget(self) -> None:
        """Everything that was remembered, as after a start."""
        self.cache.clear()
        self.passages.clear()

    def _encode_passages(self, passages: list[Passage]) -> list[bytes]:
        """The ids of each, as the bytes of its array; what is not known is tokenised all at once."""
        parts = [self._parts(passage.segments) for passage in passages]
        texts = [part for some in parts for part in some if isinstance(part, str)]
        known = self.cache.take(texts, self._encode)
        return [array("i", joined_ids(some, known)).tobytes() for some in parts]

    def _parts(self, segments: Iterable[Segment]) -> list[Part]:
        try:
            return segment_parts(segments, Text, self._special_ids, PIECE_LENGTH, pieces)
        except KeyError as error:
            self.special_id(error.args[0])  # says what is missing
            raise

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return self._encoder.encode(well_formed(texts))

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of an already rendered chat: the seven spellings of product.md 0.3 become control tokens."""
        return self.encode_segments(parse_rendered(text))

    def count_spelt(self, text: str) -> int:
        """Number of tokens when every control spelling in the text is taken for its token, as DeepSeek counts."""
        spelt = self._spelt
        return sum(map(len, self._encode(spelt.split(text)))) + len(spelt.findall(text))

    @cached_property
    def _special_ids(self) -> dict[SpecialToken, int]:
        ids = self.vocabulary.special_ids
        return {token: ids[token] for token in SpecialToken if token in ids}

    @cached_property
    def _spelt(self) -> re.Pattern[str]:
        return re.compile(_any_of(self.vocabulary.special_ids))

    def special_id(self, token: SpecialToken) -> int:
        """The id of a control token; raises FileFormatError when this vocabulary has none."""
        return self.vocabulary.special_id(token)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one token stands for; ValueError for an id outside the vocabulary."""
        return self.vocabulary.bytes_of(token_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens spelt out; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def stream_decoder(self) -> "StreamDecoder":
        """A decoder for ids that arrive one by one."""
        return StreamDecoder(self)


def _passage_bytes(passage: Passage, ids: bytes) -> int:
    return len(ids) + passage.size_bytes


def _any_of(spellings: Iterable[str]) -> str:
    """An expression for the longest of these that a place spells.

    By their beginnings: of DeepSeek's some 800 nearly all begin alike, and a text of "<" is not compared with each.
    """
    by_beginning: dict[str, list[str]] = {}
    for spelling in sorted(spellings, key=len, reverse=True):
        by_beginning.setdefault(spelling[:_BEGINNING], []).append(re.escape(spelling[_BEGINNING:]))
    return "|".join(f"{re.escape(start)}(?:{'|'.join(ends)})" for start, ends in by_beginning.items()) or "(?!)"


class StreamDecoder:
    """Ids one by one to text; whatever the split, the pieces add up to `decode` of the whole.

    Only the bytes of a character that is still incomplete are held back.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_id: int) -> str:
        """The text that this id completes, possibly empty."""
        return self._utf8.decode(self._tokenizer.token_bytes(token_id))

    def finish(self) -> str:
        """What is still held: U+FFFD for an incomplete character, otherwise nothing."""
        return self._utf8.decode(b"", final=True)


class ReferenceEncoder:
    """Plain text to ids as Hugging Face's library does it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._bpe = HfTokenizer(_bpe_model(vocabulary))
        self._bpe.pre_tokenizer = _pre_tokenizer()
        self._numbers = tuple(range(len(vocabulary.tokens)))

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, which holds no lone surrogates."""
        # encode() would hold the GIL all the while; encode_batch_fast() does not (spec/libraries.md 4).
        encodings = self._bpe.encode_batch_fast(texts, add_special_tokens=False)
        return [[self._numbers[token_id] for token_id in encoding.ids] for encoding in encodings]


def _bpe_model(vocabulary: Vocabulary) -> BPE:
    try:
        return BPE(vocab=dict(vocabulary.text_ids), merges=list(vocabulary.merges))
    except Exception as error:  # the library raises bare Exception for an unknown token in a merge
        check_merges(vocabulary, error)
        raise


def _pre_tokenizer() -> PreTokenizer:
    splits = [Split(Regex(pattern), "isolated") for pattern in SPLIT_PATTERNS]
    sequence: PreTokenizer = PreSequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
    return sequence
