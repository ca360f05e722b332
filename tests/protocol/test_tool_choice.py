"""Which tools are offered and whether one must be called (spec/recipe.md 3 "tool_choice")."""

import pytest

from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.policy import OFFICIAL, Policy, local
from whitedwarf.protocol.tool_choice import ChosenTools, chosen_tools

LOCAL = local(ModelVersion.V4)
RUN, PICK = ToolDefinition("run"), ToolDefinition("pick")
BOTH = (RUN, PICK)


@pytest.mark.parametrize("policy", [OFFICIAL, LOCAL], ids=["official", "local"])
class TestBothPolicies:
    def test_none_takes_the_tools_away(self, policy: Policy) -> None:
        chosen = chosen_tools(BOTH, ToolChoice.NONE, None, policy, is_thinking=True)
        assert chosen == ChosenTools((), ToolChoice.NONE)

    def test_without_tools_there_is_nothing_to_choose(self, policy: Policy) -> None:
        for choice, name in ((ToolChoice.REQUIRED, None), (ToolChoice.REQUIRED, "zz"), (ToolChoice.AUTO, None)):
            assert chosen_tools((), choice, name, policy, is_thinking=True) == ChosenTools()

    def test_auto_offers_all(self, policy: Policy) -> None:
        assert chosen_tools(BOTH, ToolChoice.AUTO, None, policy, is_thinking=True) == ChosenTools(BOTH)

    def test_a_name_leaves_that_tool_which_must_be_called(self, policy: Policy) -> None:
        chosen = chosen_tools(BOTH, ToolChoice.REQUIRED, "pick", policy, is_thinking=False)
        assert chosen == ChosenTools((PICK,), ToolChoice.REQUIRED, must_call=True)

    def test_an_unknown_name_is_refused(self, policy: Policy) -> None:
        with pytest.raises(RefusedRequest) as caught:
            chosen_tools(BOTH, ToolChoice.REQUIRED, "zz", policy, is_thinking=True)
        assert str(caught.value) == (
            "Invalid value for 'tool_call': no function named 'zz' was specified in the 'tools' parameter."
        )


def test_only_our_own_policy_makes_a_thinking_model_call() -> None:
    with pytest.raises(RefusedRequest, match=r"^Thinking mode does not support this tool_choice$"):
        chosen_tools(BOTH, ToolChoice.REQUIRED, None, OFFICIAL, is_thinking=True)
    chosen = chosen_tools(BOTH, ToolChoice.REQUIRED, None, LOCAL, is_thinking=True)
    assert chosen == ChosenTools(BOTH, ToolChoice.AUTO, must_call=True)
