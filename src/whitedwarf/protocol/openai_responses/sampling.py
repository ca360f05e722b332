"""How a Responses request wants tokens drawn and counted: checked in the official order, then resolved."""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.options import InferenceOptions
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.reading import RequestReading
from whitedwarf.protocol.openai_responses.request import ResponsesRequest
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.resolution import (
    check_max_tokens,
    check_temperature,
    check_top_p,
    resolved_temperature,
    resolved_top_p,
)
from whitedwarf.protocol.unfollowed_options import ignored_while_thinking, lowered_limit

MAX_TOP_LOGPROBS = 20


def check_sampling(request: ResponsesRequest, policy: Policy, *, is_thinking: bool) -> None:
    """Refuse the first option that is out of its range."""
    check_temperature(request.temperature)
    check_top_p(request.top_p)
    if request.top_logprobs is not None and request.top_logprobs > MAX_TOP_LOGPROBS:
        raise RefusedRequest("Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].")
    bound = policy.max_tokens_bound(is_thinking=is_thinking)
    check_max_tokens(_wanted_tokens(request, policy, bound), bound)


def inference_options(
    reading: RequestReading, conversation: Conversation, version: ModelVersion, policy: Policy
) -> InferenceOptions:
    """The options of a checked request."""
    request, is_thinking = reading.request, conversation.is_thinking
    bound = policy.max_tokens_bound(is_thinking=is_thinking)
    return InferenceOptions(
        max_tokens=_wanted_tokens(request, policy, bound),
        temperature=resolved_temperature(request.temperature, is_thinking=is_thinking),
        top_p=resolved_top_p(request.top_p, version, conversation, policy),
        top_k=None if is_thinking else reading.top_k,
        min_p=None if is_thinking else reading.min_p,
        seed=reading.seed,
        logprobs=request.top_logprobs is not None,
        top_logprobs=request.top_logprobs,
    )


def sampling_warnings(reading: RequestReading, policy: Policy, *, is_thinking: bool) -> tuple[str, ...]:
    """What the options say otherwise than the request."""
    request, bound = reading.request, policy.max_tokens_bound(is_thinking=is_thinking)
    asked = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": reading.top_k,
        "min_p": reading.min_p,
    }
    lowered = lowered_limit("max_output_tokens", request.max_output_tokens, bound)
    return lowered + ignored_while_thinking(asked, is_thinking=is_thinking)


def _wanted_tokens(request: ResponsesRequest, policy: Policy, bound: int) -> int | None:
    """The local policy lowers what is too much."""
    wanted = request.max_output_tokens
    return wanted if wanted is None or policy.is_official else min(wanted, bound)
