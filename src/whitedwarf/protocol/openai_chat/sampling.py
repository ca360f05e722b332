"""How a Chat request wants tokens drawn and counted: checked in the official order, then resolved."""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.options import InferenceOptions
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_chat.reading import Reading
from whitedwarf.protocol.openai_chat.request import ChatRequest
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


def check_sampling(request: ChatRequest, policy: Policy, *, is_thinking: bool) -> None:
    """Refuse the first option that is out of its range; only the official library minds too many tokens, or choices."""
    if policy.is_official and request.n not in (None, 1):
        raise RefusedRequest("Invalid n value (currently only n = 1 is supported)")
    _check_penalty("presence_penalty", request.presence_penalty)
    _check_penalty("frequency_penalty", request.frequency_penalty)
    check_temperature(request.temperature)
    check_top_p(request.top_p)
    _check_logprobs(request)
    bound = policy.max_tokens_bound(is_thinking=is_thinking)
    check_max_tokens(request.max_tokens if policy.is_official else _bounded(request.max_tokens, bound), bound)
    if request.seed is not None and request.seed >= 1 << 63:
        raise RefusedRequest("Invalid seed value, the valid range of seed is [0, 2^63)")


def inference_options(
    reading: Reading, conversation: Conversation, version: ModelVersion, policy: Policy
) -> InferenceOptions:
    """The options of a checked request."""
    request = reading.request
    is_thinking = conversation.is_thinking
    return InferenceOptions(
        max_tokens=_bounded(request.max_tokens, policy.max_tokens_bound(is_thinking=is_thinking)),
        temperature=resolved_temperature(request.temperature, is_thinking=is_thinking),
        top_p=resolved_top_p(request.top_p, version, conversation, policy),
        top_k=None if is_thinking else reading.top_k,
        min_p=None if is_thinking else reading.min_p,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        seed=request.seed,
        logprobs=bool(request.logprobs),
        top_logprobs=request.top_logprobs,
        logit_bias=reading.logit_bias,
    )


def sampling_warnings(reading: Reading, policy: Policy, *, is_thinking: bool) -> tuple[str, ...]:
    """What the options say otherwise than the request."""
    request = reading.request
    bound = policy.max_tokens_bound(is_thinking=is_thinking)
    asked = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": reading.top_k,
        "min_p": reading.min_p,
        "presence_penalty": request.presence_penalty or None,
        "frequency_penalty": request.frequency_penalty or None,
        "logit_bias": len(reading.logit_bias) or None,
    }
    lowered = lowered_limit("max_tokens", request.max_tokens, bound)
    return lowered + ignored_while_thinking(asked, is_thinking=is_thinking)


def _bounded(max_tokens: int | None, bound: int) -> int | None:
    return None if max_tokens is None else min(max_tokens, bound)


def _check_penalty(name: str, penalty: float | None) -> None:
    if penalty is not None and not -2 <= penalty <= 2:
        raise RefusedRequest(f"Invalid {name} value, the valid range of {name} is [-2, 2]")


def _check_logprobs(request: ChatRequest) -> None:
    if request.top_logprobs is None:
        return
    if not request.logprobs:
        raise RefusedRequest(
            "Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is used."
        )
    if request.top_logprobs > MAX_TOP_LOGPROBS:
        raise RefusedRequest("Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].")
