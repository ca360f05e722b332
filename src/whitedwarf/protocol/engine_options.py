"""From what a request asks for to what the engine is told: pure, and the same in every dialect.

Promises: an answer always has room for a token, or the request is refused; more than fits is cut to what does.
"""

from typing import Any

from whitedwarf.conversation.options import InferenceOptions
from whitedwarf.engine.request import MAX_TOP_LOGPROBS, SamplingOptions
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.failures import ContextLengthExceeded, RefusedRequest
from whitedwarf.protocol.resolution import resolve_max_tokens

_SAMPLING = SamplingOptions()


def fitting_tokens(
    converted: Converted[Any], prompt_tokens: int, context_length: int, default: int | None = None
) -> int:
    """How long the answer may get. More than fits is no error: agents ask for a fixed number, whatever the context.

    `default` is for a request that asks for no length (Policy.default_max_tokens).
    """
    room = context_length - prompt_tokens - 1
    if room < 1:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context_length} tokens, and your prompt has {prompt_tokens}: "
            "no answer would fit. Please reduce the length of the messages.",
            prompt_tokens,
            context_length,
        )
    asked = default if converted.inference.max_tokens is None else converted.inference.max_tokens
    conversation = converted.conversation
    return resolve_max_tokens(
        None if asked is None else min(asked, room),
        prompt_tokens,
        context_length - 1,
        is_thinking=conversation.is_thinking,
        effort=conversation.reasoning_effort,
    )


def sampling_options(inference: InferenceOptions, *, is_thinking: bool, vocab_size: int) -> SamplingOptions:
    """How the engine draws; what the request leaves open is the engine's own default.

    Answers with thoughts are drawn without penalties and biases, as DeepSeek's API does. RefusedRequest for a bias of a
    token that there is not.
    """
    for token, _ in inference.logit_bias:
        if token >= vocab_size:
            raise RefusedRequest(f"logit_bias: expected token ids from 0 to {vocab_size - 1}, got {token}")
    return SamplingOptions(
        temperature=inference.temperature,
        top_p=inference.top_p,
        min_p=_SAMPLING.min_p if inference.min_p is None else inference.min_p,
        top_k=inference.top_k or 0,
        seed=inference.seed,
        presence_penalty=0.0 if is_thinking else inference.presence_penalty,
        frequency_penalty=0.0 if is_thinking else inference.frequency_penalty,
        logit_bias=() if is_thinking else inference.logit_bias,
    )


def wanted_logprobs(inference: InferenceOptions) -> int | None:
    """How many candidates are told with each token; None: no log probabilities."""
    return min(inference.top_logprobs or 0, MAX_TOP_LOGPROBS) if inference.logprobs else None
