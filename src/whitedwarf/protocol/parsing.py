"""How the answer to a converted request is to be read: the same in every dialect."""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.response_format import JsonObject
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.protocol.policy import Policy


def parse_options(
    conversation: Conversation, start: ParseStart, stop_strings: tuple[str, ...], policy: Policy
) -> ParseOptions:
    """The parser's options; officially the answer is read to the letter, otherwise with repairs."""
    return ParseOptions(
        mode=ParseMode.STRICT if policy.is_official else ParseMode.SALVAGE,
        start=start,
        parse_tool_calls=conversation.offers_tools,
        starts_in_tool_calls=conversation.tool_choice is ToolChoice.REQUIRED,
        parse_json_output=isinstance(conversation.response_format, JsonObject),
        stop_strings=stop_strings,
        max_call_tokens=policy.max_call_tokens,
    )
