"""The names of members of namespaces, as the official library makes them."""

import pytest

from protocol.openai_responses.bodies import function, namespace
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import OFFICIAL


@pytest.mark.parametrize(
    ("outer", "inner", "v4"),
    [
        ("ns", "f", "ns__f"),
        ("ns", "f_", "ns__f_"),
        ("ns_", "f", "ns_f"),
        ("mcp__notes__", "f", "mcp__notes__f"),
        ("ns", "_f", "ns_f"),
        ("ns", "__f", "ns__f"),
        ("ns_", "_f", "ns__f"),
        ("_", "_", "__"),
    ],
)
def test_an_underscore_at_the_seam_separates_enough_for_v4(outer: str, inner: str, v4: str) -> None:
    for model, expected in (("DeepSeek-V4-Pro", v4), ("DeepSeek-V4.1-Flash", f"{outer}::{inner}")):
        called = {"type": "function_call", "call_id": "c", "namespace": outer, "name": inner, "arguments": "{}"}
        items = [called, {"type": "function_call_output", "call_id": "c", "output": "done"}]
        body = {"model": model, "input": items}
        for tools in ([], [namespace(outer, function(inner))]):
            conversation = convert(body | {"tools": tools}, OFFICIAL).conversation
            assert [call.name for call in conversation.messages[0].tool_calls] == [expected]  # type: ignore[union-attr]
            assert [tool.name for tool in conversation.tools] == [expected] * len(tools)
