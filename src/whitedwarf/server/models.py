"""What `GET /v1/models` says: one loaded model, under its own name.

The objects hold what OpenAI's and what Anthropic's clients read, so that both may ask at the same address. A request's
`model` never chooses weights (spec/product.md B.3).
"""

from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json

_PARAMETERS = (
    "tools",
    "tool_choice",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "stop",
    "seed",
    "stream",
    "reasoning_effort",
)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The loaded model; `loaded_at` in Unix seconds, `loaded_at_text` the same in RFC 3339."""

    id: str
    name: str
    context_length: int
    loaded_at: int
    loaded_at_text: str
    default_max_tokens: int | None = None  # of an answer that asks for no length

    def as_json(self) -> dict[str, Json]:
        """The model object."""
        provider: dict[str, Json] = {
            "context_length": self.context_length,
            "max_completion_tokens": self.context_length,
            "is_moderated": False,
        }
        return {
            "id": self.id,
            "object": "model",
            "type": "model",
            "created": self.loaded_at,
            "created_at": self.loaded_at_text,
            "owned_by": "whitedwarf",
            "name": self.name,
            "display_name": self.name,
            "lifecycle": "active",
            "context_length": self.context_length,
            "max_input_tokens": self.context_length,
            "max_tokens": self.context_length,
            "top_provider": provider,
            "supported_parameters": list[Json](_PARAMETERS),
        }

    def as_list(self) -> dict[str, Json]:
        """The list of models."""
        return {
            "object": "list",
            "data": [self.as_json()],
            "has_more": False,
            "first_id": self.id,
            "last_id": self.id,
        }
