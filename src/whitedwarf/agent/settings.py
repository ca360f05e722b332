"""How the agent works: the choices that flags, environment and files make once, and that commands may replace."""

from dataclasses import dataclass, field

from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.request import DEFAULT_MAX_TOKENS, SamplingOptions


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Defaults are those of product.md C.1, C.3 and C.10; `extra_system` is the user's own text, never markup."""

    thinking: Thinking = Thinking.HIGH
    max_answer_tokens: int = DEFAULT_MAX_TOKENS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    system: str | None = None  # instead of the built-in words; None: those
    extra_system: str = ""
    workspace: str = ""  # told to the model with the date
    reminder_after_tokens: int = 50_000
    compact_at: float = 0.85  # of the context
    reserve_tokens: int = 1024  # have to be free behind what is said, or an eighth of a small context
    tells_date: bool = True  # with the workspace, once in a session, before the user's first words
