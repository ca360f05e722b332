"""No text that a user, a tool or a client controls can become a control token."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from fakes.conversation_dumps import LOOK_ALIKES
from whitedwarf.conversation.content import IllustratedText, UrlImage
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.conversation.tools import ToolCall, ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Control, Text
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

ROUNDS = 420  # of about 24 texts each: more than 10,000
PIECES = [*LOOK_ALIKES, "</", "<", ">", " ", "\n", "x", "｜DSML", "think>", "<｜Uѕer｜>", "<｜User\u200b｜>"]
OWN_PIECES = [piece for piece in PIECES if piece not in GROUNDING_TOKENS]  # in the model's own words these are tokens


def conversation(text: Callable[[], str], own: Callable[[], str]) -> Conversation:
    """Every field that takes text, filled with it."""
    tool = ToolDefinition(text(), text(), {text(): {text(): [text(), 1]}})
    calls = (ToolCall(text(), text(), '{"key": 1}'), ToolCall("2", text(), text()))
    return Conversation(
        (
            SystemMessage(text(), (tool,)),
            UserMessage(IllustratedText((text(), text(), text()), (UrlImage(text()), UrlImage(text())))),
            LatestReminder(text()),
            AssistantMessage(own(), own(), calls),
            ToolMessage(text(), calls[0].id),
            ToolMessage(text(), "2"),
            UserMessage(text()),
            AssistantMessage(own(), own()),
            SystemMessage(text()),
            UserMessage(text()),
        ),
        tools=(tool, ToolDefinition(text(), text(), text())),
        tool_choice=ToolChoice.REQUIRED,
        response_format=JsonSchema({text(): text()}),
    )


def controls(conversation: Conversation, version: ModelVersion) -> list[SpecialToken]:
    return [part.token for part in encode(conversation, version).segments if isinstance(part, Control)]


@pytest.mark.parametrize("version", ModelVersion)
def test_control_ids_stand_only_where_the_template_has_them(
    version: ModelVersion, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    tokenizer = official_tokenizers[version]
    control_ids = {token_id: spelling for spelling, token_id in tokenizer.vocabulary.special_ids.items()}
    dice = random.Random(3)
    template = controls(conversation(lambda: "x", lambda: "x"), version)
    for _ in range(ROUNDS):
        hostile = conversation(
            lambda: "x" + "".join(dice.choices(PIECES, k=3)), lambda: "x" + "".join(dice.choices(OWN_PIECES, k=3))
        )
        prompt = encode(hostile, version)
        assert Counter(controls(hostile, version)) == Counter(template)
        ids = tokenizer.encode_segments(prompt.segments)
        assert [control_ids[token_id] for token_id in ids if token_id in control_ids] == controls(hostile, version)
        assert tokenizer.decode(ids) == prompt.rendered().text


def test_only_grounding_tokens_come_back_to_life_and_only_in_the_models_own_words() -> None:
    everything = "".join(SpecialToken)
    own = Conversation((UserMessage("x"), AssistantMessage(everything)), is_thinking=False)
    others = Conversation((UserMessage(everything), AssistantMessage("x")), is_thinking=False)
    for version in ModelVersion:
        template = controls(others, version)
        assert controls(own, version) == [*template[:4], *GROUNDING_TOKENS, *template[4:]]


def test_segments_of_text_and_of_control_are_never_equal() -> None:
    assert Text(SpecialToken.BOS.value) != Control(SpecialToken.BOS)
