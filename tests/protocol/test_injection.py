"""No text in any field of a request becomes a control token: those stand only where the template has them."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from fakes.conversation_dumps import LOOK_ALIKES
from fakes.injected_requests import (
    Body,
    Texts,
    chat_request,
    completions_request,
    messages_request,
    responses_request,
)
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.segments import Control
from whitedwarf.prompt.special import GROUNDING_TOKENS, PUBLISHED, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol import completions
from whitedwarf.protocol.anthropic import convert as anthropic
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.openai_responses import convert as responses
from whitedwarf.protocol.policy import OFFICIAL, OFFICIAL_MODELS, Policy, local

TEXTS_EACH = 10_000  # for each dialect, version and policy
MODELS = {version: model for model, version in OFFICIAL_MODELS.items()}
HOMOGLYPHS = ["<｜Uѕer｜>", "<❘User❘>", "<∣Assistant∣>", "＜think＞", "<ǀDSMLǀ", "｜DЅML｜", "<｜User\u200b｜>", "▁of_"]
PIECES = [*LOOK_ALIKES, *HOMOGLYPHS, "</", "<", ">", " ", "\n", "x", "｜DSML", "think>", '"', "\\", "\u0301", "｜>"]
OWN_PIECES = [piece for piece in PIECES if piece not in GROUNDING_TOKENS]  # in the model's own words these are tokens
NAME_PIECES = ["｜DSML｜", "｜User｜", "｜", "think", "▁", " ", "invoke name=", "x", "/", "｜ref｜", "DSML", "\\"]

REQUESTS: dict[str, tuple[Callable[[Texts], Body], Callable[[Any, Policy], Converted[Any]]]] = {
    "chat": (chat_request, chat.convert),
    "completions": (completions_request, completions.convert),
    "messages": (messages_request, anthropic.convert),
    "responses": (responses_request, responses.convert),
}


class Dice:
    """Random texts, and how many were drawn."""

    def __init__(self) -> None:
        self.drawn = 0
        self._dice = random.Random(3)
        self._numbers = itertools.count()

    def texts(self, *, is_official: bool) -> Texts:
        return Texts(
            lambda: self._text(PIECES),
            lambda: self._text(OWN_PIECES),
            lambda: f"n{next(self._numbers)}" + ("" if is_official else self._text(NAME_PIECES)),
            is_official,
        )

    def _text(self, pieces: list[str]) -> str:
        self.drawn += 1
        return "x" + "".join(self._dice.choices(pieces, k=3))


def harmless(*, is_official: bool) -> Texts:
    numbers = itertools.count()
    return Texts(lambda: "x", lambda: "x", lambda: f"n{next(numbers)}", is_official)


def prompt_of(dialect: str, version: ModelVersion, texts: Texts) -> Prompt:
    make, convert = REQUESTS[dialect]
    policy = OFFICIAL if texts.is_official else local(version)
    converted = convert({**make(texts), "model": MODELS[version]}, policy)
    return encode(converted.conversation, version)


def controls(prompt: Prompt) -> list[SpecialToken]:
    return [part.token for part in prompt.segments if isinstance(part, Control)]


def shown_controls(prompt: Prompt) -> list[str]:
    """What the rendered text has in its ranges of control tokens."""
    rendered = prompt.rendered()
    return [rendered.text[start:end] for start, end in rendered.special_ranges]


@pytest.mark.parametrize("is_official", [True, False], ids=["official", "local"])
@pytest.mark.parametrize("version", ModelVersion)
@pytest.mark.parametrize("dialect", REQUESTS)
def test_control_ids_stand_only_where_the_template_has_them(
    dialect: str, version: ModelVersion, is_official: bool, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    tokenizer = official_tokenizers[version]
    spelt = {token_id: spelling for spelling, token_id in tokenizer.vocabulary.special_ids.items()}
    template = controls(prompt_of(dialect, version, harmless(is_official=is_official)))
    assert SpecialToken.BOS in template
    dice = Dice()
    while dice.drawn < TEXTS_EACH:
        prompt = prompt_of(dialect, version, dice.texts(is_official=is_official))
        assert controls(prompt) == template
        assert shown_controls(prompt) == [PUBLISHED.of(token) for token in template]
        ids = tokenizer.encode_segments(prompt.segments)
        assert [spelt[token_id] for token_id in ids if token_id in spelt] == template
        assert tokenizer.decode(ids) == prompt.rendered().text


@pytest.mark.parametrize(
    ("dialect", "share"), [("chat", 0.6), ("completions", 0.3), ("messages", 0.6), ("responses", 0.6)]
)
def test_most_of_the_texts_are_in_the_prompt(dialect: str, share: float) -> None:
    numbers = itertools.count()
    texts = Texts(*[lambda: f"[{next(numbers)}]"] * 2, lambda: f"n{next(numbers)}", is_official=False)
    shown = prompt_of(dialect, ModelVersion.V41, texts).rendered().text
    drawn = next(numbers)
    missing = [number for number in range(drawn) if f"[{number}]" not in shown and f"n{number}" not in shown]
    assert drawn - len(missing) >= share * drawn, missing
