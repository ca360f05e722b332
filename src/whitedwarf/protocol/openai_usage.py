"""Token counts as Chat and Completions answers tell them. Spec: recipe.md 13."""

from whitedwarf.conversation.events import Finished
from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.converted import PromptUsage


def openai_usage(prompt: PromptUsage, finished: Finished, *, is_thinking: bool) -> dict[str, Json]:
    """The `usage` object; reasoning tokens are told only where there was to be reasoning."""
    usage: dict[str, Json] = {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": finished.completion_tokens,
        "total_tokens": prompt.prompt_tokens + finished.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": prompt.cached_tokens},
    }
    if is_thinking:
        usage["completion_tokens_details"] = {"reasoning_tokens": finished.reasoning_tokens}
    usage["prompt_cache_hit_tokens"] = prompt.cached_tokens
    usage["prompt_cache_miss_tokens"] = max(0, prompt.prompt_tokens - prompt.cached_tokens)
    return usage
