import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.conversation.content import DataUrlImage, IllustratedText
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.passage import Passage
from whitedwarf.prompt.recipe_memory import RecipeMemory, Same, spelt_out
from whitedwarf.prompt.segments import Control, Text
from whitedwarf.prompt.special import SpecialToken, Spellings
from whitedwarf.prompt.tokenizer import Tokenizer

TEXTS = st.sampled_from(["", "a", "b", "<｜User｜>", "<｜ref｜>x<｜/ref｜>", "\n\n"])
IMAGE = IllustratedText(("see ", ""), (DataUrlImage("data:image/png;base64,"),))
CONTENTS = TEXTS | st.just(IMAGE)
CALLS = st.builds(
    ToolCall,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["read", "｜DSML｜"]),
    st.sampled_from(
        ["{}", '{"x": 1, "y": "two", "z": 1e-7}', '{"x": [1.5, null]}', "no json", '"text"', '{"<": "</"}']
    ),
)
TOOLS = st.builds(ToolDefinition, TEXTS, TEXTS, st.sampled_from([{}, {"a": 1}, {"a": True}, {"a": 1.0}]))
TOOL_LISTS = st.lists(TOOLS, max_size=2).map(tuple)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, CONTENTS, st.none() | TOOL_LISTS),
    st.builds(UserMessage, CONTENTS),
    st.builds(
        AssistantMessage, TEXTS, st.none() | TEXTS, st.none() | st.lists(CALLS, max_size=3).map(tuple), st.booleans()
    ),
    st.builds(ToolMessage, CONTENTS, st.none() | st.sampled_from(["a", "b"])),
    st.builds(LatestReminder, TEXTS),
)
CONVERSATIONS = st.builds(
    Conversation,
    st.lists(MESSAGES, max_size=8).map(tuple),
    st.booleans(),
    TOOL_LISTS,
    st.sampled_from(ToolChoice),
    st.none() | st.sampled_from(ReasoningEffort),
    st.sampled_from([PlainText(), JsonObject(), JsonSchema({"a": 1}), JsonSchema({"a": True}), Regex("a")]),
)


def check_alike(conversation: Conversation, version: ModelVersion, memory: RecipeMemory) -> None:
    remembered, plain = encode(conversation, version, memory=memory), encode(conversation, version)
    assert remembered.segments == plain.segments
    assert remembered.images == plain.images
    for passage in remembered.passages[1:]:
        assert isinstance(passage.segments[0], Control)


@settings(max_examples=300, deadline=None)
@given(st.lists(CONVERSATIONS, max_size=4), st.sampled_from(ModelVersion))
def test_a_prompt_is_the_same_with_a_memory(conversations: list[Conversation], version: ModelVersion) -> None:
    memory = RecipeMemory()
    for conversation in [*conversations, *copy.deepcopy(conversations)]:
        check_alike(conversation, version, memory)


@settings(max_examples=100, deadline=None)
@given(CONVERSATIONS, st.sampled_from(ModelVersion))
def test_a_growing_conversation_has_the_prompts_it_has_without_a_memory(
    whole: Conversation, version: ModelVersion
) -> None:
    memory = RecipeMemory()
    for count in range(len(whole.messages) + 1):
        conversation = Conversation(whole.messages[:count], whole.is_thinking, whole.tools)
        check_alike(conversation, version, memory)


@settings(max_examples=100, deadline=None)
@given(st.lists(CONVERSATIONS, max_size=4))
def test_the_ids_of_a_prompt_are_those_of_its_segments(nano: Tokenizer, conversations: list[Conversation]) -> None:
    tokenizer, memory = Tokenizer(nano.vocabulary), RecipeMemory()
    for conversation in [*conversations, *conversations]:
        prompt = encode(conversation, ModelVersion.V4, memory=memory)
        ids = tokenizer.encode_prompt(prompt)
        assert ids.dtype == "int32"
        assert ids.tolist() == nano.encode_segments(prompt.segments)


def test_one_memory_may_serve_both_versions() -> None:
    memory = RecipeMemory()
    conversation = Conversation((UserMessage("go"), AssistantMessage("", "", (ToolCall("1", "f", '{"x": 1e-7}'),))))
    for version in (ModelVersion.V4, ModelVersion.V41, ModelVersion.V4):
        check_alike(conversation, version, memory)


def test_the_next_turn_has_the_same_passages() -> None:
    memory = RecipeMemory()
    messages = tuple(part for _ in range(9) for part in (UserMessage("go"), AssistantMessage("text")))
    first, second = (encode(Conversation(messages[:count]), ModelVersion.V4, memory=memory) for count in (11, 13))
    assert second.passages[:12] == first.passages[:12]  # the very same: passages have no other equality
    assert all(passage.comes_again for passage in first.passages[:12])


def test_what_is_kept_is_bounded() -> None:
    memory = RecipeMemory(100_000)
    for number in range(300):
        call = ToolCall(str(number), "f", f'{{"x": "{"y" * 10 * number}"}}')
        encode(Conversation((UserMessage("go"), AssistantMessage("", "", (call,)))), ModelVersion.V4, memory=memory)
        assert memory.passages.size_bytes <= 100_000
    assert 5 < len(memory.passages) < 100


def test_a_prompt_spelt_otherwise_is_not_remembered() -> None:
    memory, conversation = RecipeMemory(), Conversation((AssistantMessage("<r>"), UserMessage("<｜ref｜>")))
    changed = Spellings({SpecialToken.REF: "<r>"})
    encode(conversation, ModelVersion.V4, memory=memory)
    assert encode(conversation, ModelVersion.V4, changed, memory).segments == (
        encode(conversation, ModelVersion.V4, changed).segments
    )


def test_what_a_remembered_call_spells_is_plain_text_all_the_same() -> None:
    call = ToolCall("1", "f", '{"x": "<｜User｜>"}')
    conversation = Conversation((UserMessage("go"), AssistantMessage("", "", (call,))))
    segments = encode(conversation, ModelVersion.V4, memory=RecipeMemory()).segments
    assert any(isinstance(segment, Text) and "<｜User｜>" in segment.text for segment in segments)


def test_values_that_are_equal_but_not_the_same_are_spelt_differently() -> None:
    assert len({spelt_out([value]) for value in (1, 1.0, True, -0.0, 0.0, 0, False)}) == 7
    assert spelt_out({"a": 1, "b": 2}) != spelt_out({"b": 2, "a": 1})
    assert spelt_out({"a": [1, "é"]}) == spelt_out(copy.deepcopy({"a": [1, "é"]}))


def test_what_marshal_cannot_spell_is_not_remembered() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert spelt_out(deep) is None  # type: ignore[arg-type]
    memory, defined = RecipeMemory(), (ToolDefinition("f"),)
    assert memory.tools(deep, lambda: defined) is defined  # type: ignore[arg-type]
    assert len(memory.definitions) == 0


def test_only_the_very_same_object_is_the_same() -> None:
    tools = (ToolDefinition("f"),)
    assert Same(tools) == Same(tools)
    assert hash(Same(tools)) == hash(Same(tools))
    assert Same(tools) != Same((ToolDefinition("f"),))
    assert Same(tools) != tools


def test_all_that_a_passage_holds_is_counted() -> None:
    texts = Passage((Text("x" * 1000),)).size_bytes
    assert 1000 < texts < 1300
    images = (DataUrlImage("y" * 5000),)
    assert 6000 < Passage((Text("x" * 1000),), images).size_bytes < 6500
