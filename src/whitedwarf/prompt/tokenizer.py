"""Text to token ids and back, for DeepSeek V4, built from GGUF metadata.

Promises: ids equal those of DeepSeek's own tokenizer.json; `encode` takes plain text and never yields a control token,
whatever the text spells; control tokens come only from `encode_segments`. Encoding releases the GIL.
Does not know chats: see encode_v4.py. Spec: product.md 0.3, model.md 4.2, recipe.md 10.
"""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex
from tokenizers import Tokenizer as HfTokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as PreSequence

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.segments import Segment, Text, coalesce, parse_rendered
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.vocabulary import MERGES_KEY, Vocabulary

# DeepSeek's pre-tokenizer ("joyai-llm"): digits in threes, then CJK and kana runs, then everything else.
_DIGITS = r"\p{N}{1,3}"
_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
_REST = "|".join(
    (
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+""",  # one ASCII sign and the ASCII letters it leads
        "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",  # letters and marks, with one leading blank or other character
        " ?[\\p{P}\\p{S}]+[\r\n]*",  # signs, with a leading space and the line ends after them
        "\\s*[\r\n]+",
        r"\s+(?!\S)",  # blanks, but the last one stays for the word that follows
        r"\s+",
    )
)


class Tokenizer:
    """DeepSeek V4's byte-level BPE. Immutable, so it may be shared between threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._bpe = HfTokenizer(_bpe_model(vocabulary))
        self._bpe.pre_tokenizer = _pre_tokenizer()

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
        # encode() would hold the GIL all the while; encode_batch_fast() does not (spec/libraries.md 4).
        ids: list[int] = self._bpe.encode_batch_fast([_well_formed(text)], add_special_tokens=False)[0].ids
        return ids

    def encode_segments(self, segments: Iterable[Segment]) -> list[int]:
        """Ids of a prompt made of text and control tokens; each stretch of text is tokenised on its own."""
        ids: list[int] = []
        for segment in coalesce(segments):
            if isinstance(segment, Text):
                ids += self.encode(segment.text)
            else:
                ids.append(self.special_id(segment.token))
        return ids

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of an already rendered chat: the seven spellings of product.md 0.3 become control tokens."""
        return self.encode_segments(parse_rendered(text))

    def count_spelt(self, text: str) -> int:
        """Number of tokens when every control spelling in the text is taken for its token, as DeepSeek counts."""
        spelt = re.compile(
            "|".join(map(re.escape, sorted(self.vocabulary.special_ids, key=len, reverse=True))) or "(?!)"
        )
        return sum(len(self.encode(part)) for part in spelt.split(text)) + len(spelt.findall(text))

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


def _bpe_model(vocabulary: Vocabulary) -> BPE:
    try:
        return BPE(vocab=dict(vocabulary.text_ids), merges=list(vocabulary.merges))
    except Exception as error:  # the library raises bare Exception for an unknown token in a merge
        bad = vocabulary.first_bad_merge()
        if bad is None:
            raise
        rank, token = bad
        line = " ".join(vocabulary.merges[rank])
        raise FileFormatError(
            f"{MERGES_KEY}[{rank}] is {line!r}, but {token!r} is no text token of this vocabulary"
        ) from error


def _pre_tokenizer() -> PreTokenizer:
    splits = [Split(Regex(pattern), "isolated") for pattern in (_DIGITS, _CJK, _REST)]
    sequence: PreTokenizer = PreSequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
    return sequence


def _well_formed(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
