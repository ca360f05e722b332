from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.call_memory import CallMemory
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Text

CALLS = st.builds(
    ToolCall,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["read", "｜DSML｜"]),
    st.sampled_from(
        ["{}", '{"x": 1, "y": "two", "z": 1e-7}', '{"x": [1.5, null]}', "no json", '"text"', '{"<": "</"}']
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=5), st.sampled_from(ModelVersion))
def test_a_prompt_is_the_same_with_a_memory(turns: list[list[ToolCall]], version: ModelVersion) -> None:
    messages = [part for calls in turns for part in (UserMessage("go"), AssistantMessage("", "hm", tuple(calls)))]
    memory = CallMemory()
    for count in range(len(messages) + 1):
        conversation = Conversation(tuple(messages[:count]))
        assert encode(conversation, version, memory=memory) == encode(conversation, version)
        assert encode(conversation, version, memory=memory) == encode(conversation, version)


def test_one_memory_may_serve_both_versions() -> None:
    memory = CallMemory()
    conversation = Conversation((UserMessage("go"), AssistantMessage("", "", (ToolCall("1", "f", '{"x": 1e-7}'),))))
    for version in (ModelVersion.V4, ModelVersion.V41, ModelVersion.V4):
        assert encode(conversation, version, memory=memory) == encode(conversation, version)
    assert len(memory.cache) == 2


def test_what_is_kept_is_bounded() -> None:
    memory = CallMemory(100_000)
    for number in range(300):
        call = ToolCall(str(number), "f", f'{{"x": "{"y" * 10 * number}"}}')
        encode(Conversation((UserMessage("go"), AssistantMessage("", "", (call,)))), ModelVersion.V4, memory=memory)
        assert memory.cache.size_bytes <= 100_000
    assert 5 < len(memory.cache) < 50


def test_what_a_remembered_call_spells_is_plain_text_all_the_same() -> None:
    call = ToolCall("1", "f", '{"x": "<｜User｜>"}')
    conversation = Conversation((UserMessage("go"), AssistantMessage("", "", (call,))))
    segments = encode(conversation, ModelVersion.V4, memory=CallMemory()).segments
    assert any(isinstance(segment, Text) and "<｜User｜>" in segment.text for segment in segments)
