from math import inf

from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.token_log import IMPOSSIBLE, TokenLog

LESS, HALF_AN_EMOJI, SPACE_AND_A_HALF, END_OF_THOUGHT = 30, 3574, 332, 128822


def log(tokenizers: dict[ModelVersion, Tokenizer]) -> TokenLog:
    return TokenLog(tokenizers[ModelVersion.V4])


def test_a_token_is_told_with_its_bytes_and_what_else_was_likely(
    official_tokenizers: dict[ModelVersion, Tokenizer],
) -> None:
    tokens = log(official_tokenizers)
    tokens.add(LESS, -0.5, [(LESS, -0.5), (END_OF_THOUGHT, -2.0)])
    told = tokens.between((0, 1))
    assert told is not None
    thought = list(b"</think>")
    assert [token.as_json() for token in told] == [
        {
            "token": "<",
            "logprob": -0.5,
            "bytes": [60],
            "top_logprobs": [
                {"token": "<", "logprob": -0.5, "bytes": [60]},
                {"token": "</think>", "logprob": -2.0, "bytes": thought},
            ],
        }
    ]


def test_a_piece_of_a_character_shows_as_escapes(official_tokenizers: dict[ModelVersion, Tokenizer]) -> None:
    tokens = log(official_tokenizers)
    tokens.add(HALF_AN_EMOJI, -1.0)
    tokens.add(SPACE_AND_A_HALF, -1.0)
    told = tokens.between((0, 2))
    assert told is not None
    assert [(token.text, token.data) for token in told] == [("\\xf0\\x9f", b"\xf0\x9f"), ("\\x20\\xd0", b" \xd0")]


def test_an_id_outside_the_vocabulary_is_no_text(official_tokenizers: dict[ModelVersion, Tokenizer]) -> None:
    tokens = log(official_tokenizers)
    tokens.add(999_999, -1.0)
    told = tokens.between((0, 1))
    assert told is not None
    assert told[0].as_json() == {"token": "", "logprob": -1.0, "bytes": [], "top_logprobs": []}


def test_the_impossible_has_a_number_that_json_can_carry(official_tokenizers: dict[ModelVersion, Tokenizer]) -> None:
    tokens = log(official_tokenizers)
    tokens.add(LESS, -inf)
    told = tokens.between((0, 1))
    assert told is not None
    assert told[0].logprob == IMPOSSIBLE


def test_a_piece_is_told_only_when_all_its_tokens_have_been_scored(
    official_tokenizers: dict[ModelVersion, Tokenizer],
) -> None:
    tokens = log(official_tokenizers)
    tokens.add(LESS, -1.0)
    tokens.skip()
    assert tokens.between((0, 2)) is None
    assert tokens.between((0, 0)) is None
    assert tokens.between((0, 1)) is not None
