"""The corpus: the same bytes for ever, every kind in its share, and prompts that are read back as they were written."""

import hashlib
import json
from collections import Counter

import jsonschema
import pytest

from whitedwarf.calibration.dataset import block_ids
from whitedwarf.calibration.records import CATEGORIES, SHARES, records, rendered
from whitedwarf.conversation.message import AssistantMessage, ToolMessage, UserMessage
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Control
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

DIGESTS = {
    ModelVersion.V4: "268e6c8763c8a2e56ffaeb5852861f9e2d02c467ccc6555838227657509c35d4",
    ModelVersion.V41: "522a96c01aada3c2fffb6b83b564dccc0f142d26d837f7ae4879ecd3916f758e",
}
SOME = list(records(300, 0))


@pytest.mark.parametrize("version", list(ModelVersion))
def test_the_bytes_stay_what_they_were(version: ModelVersion) -> None:
    digest = hashlib.sha256()
    for record in SOME:
        digest.update(rendered(record, version).encode())
    assert digest.hexdigest() == DIGESTS[version]


def test_a_longer_corpus_begins_with_a_shorter_one() -> None:
    assert list(records(250, 0)) == SOME[:250]
    assert list(records(5, 1)) != SOME[:5]


def test_every_kind_has_its_share_and_half_of_them_think() -> None:
    counts = Counter(record.category for record in SOME)
    assert counts == {category: 3 * share for category, share in SHARES.items()}
    assert Counter(record.mode for record in SOME) == {"think": 150, "nothink": 150}
    assert {(record.category, record.mode) for record in SOME} == {
        (c, m) for c in CATEGORIES for m in ("think", "nothink")
    }


def test_kinds_and_modes_can_be_chosen() -> None:
    some = list(records(40, 3, ["maths", "prose"], "on"))
    assert {record.category for record in some} == {"maths", "prose"}
    assert {record.mode for record in some} == {"think"}
    assert {record.mode for record in records(9, 3, ["chat"], "off")} == {"nothink"}


@pytest.mark.parametrize("version", list(ModelVersion))
def test_rendered_text_is_read_back_as_the_encoders_segments(version: ModelVersion) -> None:
    with open_gguf(bundled_model()) as gguf:
        tokenizer = Tokenizer.from_metadata(gguf.metadata)
    for record in SOME[::7]:
        conversation = record.conversation
        ids = block_ids(tokenizer, rendered(record, version))
        assert ids[-1] == tokenizer.special_id(SpecialToken.EOS)
        if not conversation.is_thinking:  # there an answer that is given and one that is past look the same
            segments = list(encode(conversation, version).segments)
            end = max(at for at, segment in enumerate(segments) if segment == Control(SpecialToken.EOS))
            assert ids == tokenizer.encode_segments(segments[: end + 1])


@pytest.mark.parametrize("version", list(ModelVersion))
def test_the_last_answer_has_its_thought_when_it_thinks(version: ModelVersion) -> None:
    for record in SOME:
        answer = record.conversation.messages[-1]
        assert isinstance(answer, AssistantMessage)
        assert answer.content
        last = rendered(record, version).rpartition(SpecialToken.ASSISTANT)[2]
        thought = SpecialToken.THINK_OPEN + answer.reasoning if answer.reasoning is not None else ""
        assert last == f"{thought}{SpecialToken.THINK_CLOSE}{answer.content}{SpecialToken.EOS}"
        assert record.conversation.is_thinking == (answer.reasoning is not None)


def test_calls_fit_the_schemas_of_their_tools_and_have_their_results() -> None:
    calls = 0
    for record in SOME:
        schemas = {tool.name: tool.parameters for tool in record.conversation.tools}
        waiting: list[str] = []
        for message in record.conversation.messages:
            match message:
                case AssistantMessage(tool_calls=made) if made:
                    waiting = [call.id for call in made]
                    for call in made:
                        jsonschema.validate(json.loads(call.arguments), schemas[call.name])
                        calls += 1
                case ToolMessage(call_id=call_id):
                    assert waiting.pop(0) == call_id
                case UserMessage():
                    assert not waiting
    assert calls > 300


def test_texts_are_different_from_each_other() -> None:
    prompts = [rendered(record, ModelVersion.V4) for record in records(1000, 0)]
    assert len(set(prompts)) > 990
    lines = Counter(line for prompt in prompts for line in set(prompt.split("\n")) if len(line) > 60)
    assert lines.most_common(1)[0][1] < 400  # the tools' explanation is in all prompts with tools


def test_text_is_in_many_scripts() -> None:
    text = "".join(rendered(record, ModelVersion.V4) for record in SOME)
    for sample in (
        "ß",
        "é",
        "ñ",
        "ã",
        "ij",
        "ё",
        "的",
        "ました",
        "습니다",
        "ال",
        "def ",
        "fn ",
        "func ",
        "SELECT",
        "=> {",
        "template <",
    ):
        assert sample in text
