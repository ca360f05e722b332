"""The line that is different each time is not part of a system prompt."""

import pytest

from whitedwarf.conversation.content import IllustratedText, UrlImage
from whitedwarf.conversation.message import SystemMessage
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.anthropic.convert import convert as convert_messages
from whitedwarf.protocol.billing_header import BILLING_HEADER, without_billing_line
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import OFFICIAL, Policy, local


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{BILLING_HEADER}: v=1", ""),
        (f"{BILLING_HEADER}: v=1\n\nBe brief.\n", "Be brief.\n"),
        (f"{BILLING_HEADER}\n \x85\u3000\n Be brief.", "Be brief."),
        (f"{BILLING_HEADER}\n\x1cBe brief.", "\x1cBe brief."),
        (f"{BILLING_HEADER}\n{BILLING_HEADER}", BILLING_HEADER),
        (f" {BILLING_HEADER}", f" {BILLING_HEADER}"),
        ("Be brief.", "Be brief."),
    ],
)
def test_the_first_line_goes_with_the_space_after_it(text: str, left: str) -> None:
    assert without_billing_line(text) == left


def test_images_stay() -> None:
    images = (UrlImage("http://a"), UrlImage("http://b"))
    content = IllustratedText((f"{BILLING_HEADER}\n\n", " and ", "."), images)
    assert without_billing_line(content) == IllustratedText(("", " and ", "."), images)


@pytest.mark.parametrize("policy", [OFFICIAL, local(ModelVersion.V41)])
def test_chat_system_messages_have_no_such_line(policy: Policy) -> None:
    texts = (BILLING_HEADER, f"{BILLING_HEADER}: v=1\nBe brief.")
    messages = [{"role": "system", "content": [{"type": "text", "text": text}]} for text in texts]
    converted = convert({"model": "DeepSeek-V4.1-Flash", "messages": messages}, policy)
    assert converted.conversation.messages == (SystemMessage("Be brief."),)


@pytest.mark.parametrize("text", [BILLING_HEADER, BILLING_HEADER.upper(), f"X-{BILLING_HEADER[2:]}: v=1\n\nAll of it."])
@pytest.mark.parametrize("policy", [OFFICIAL, local(ModelVersion.V41)])
def test_the_first_block_of_a_messages_prompt_goes_as_a_whole(policy: Policy, text: str) -> None:
    blocks = [{"type": "text", "text": words} for words in (text, "Be brief.")]
    body = {"model": "DeepSeek-V4.1-Flash", "system": blocks, "messages": [{"role": "user", "content": "Hi"}]}
    assert convert_messages(body, policy).conversation.messages[0] == SystemMessage("Be brief.")
