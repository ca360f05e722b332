"""One prompt encoding per model version."""

from enum import StrEnum

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.prompt import encode_v4, encode_v41
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.special import PUBLISHED, Spellings


class ModelVersion(StrEnum):
    """Which encoding a model was trained with."""

    V4 = "V4"
    V41 = "V4.1"


def encode(
    conversation: Conversation,
    version: ModelVersion,
    spellings: Spellings = PUBLISHED,
    memory: RecipeMemory | None = None,
) -> Prompt:
    """The prompt of a conversation in that version's encoding; a memory makes the next turn's prompt cheaper."""
    encoder = encode_v4.encode if version is ModelVersion.V4 else encode_v41.encode
    return encoder(conversation, spellings, memory)
