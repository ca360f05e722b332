"""`whitedwarf run`: one answer, or a chat when no prompt is given (spec/product.md A.2, A.3)."""

from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.cli.prompt_text import prompt_text
from whitedwarf.cli.thinking_flags import asked_thinking
from whitedwarf.config import (
    DEFAULT_CHAT,
    DEFAULT_CLUSTER,
    DEFAULT_MODEL,
    DEFAULT_SAMPLING,
    DEFAULT_STEERING,
    ChatSettings,
    ClusterSettings,
    ModelSettings,
    SamplingSettings,
    SteeringSettings,
)

INTERRUPTED = 130


def command(
    *,
    chat: ChatSettings = DEFAULT_CHAT,
    sampling: SamplingSettings = DEFAULT_SAMPLING,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
) -> int:
    """Answer one prompt, or chat when none is given.

    A prompt that starts with the begin-of-sentence marker is taken as an already rendered chat. The answer goes to
    stdout, progress and speeds to stderr. Ctrl+C stops the answer.
    """
    thinking = asked_thinking(chat)
    text = prompt_text(chat)
    model = over_cluster(model, cluster)
    from whitedwarf.cli.loading import note, open_model  # only now: wrong arguments are told at once
    from whitedwarf.cli.steering_flags import steered, steering_wish

    wish = steering_wish(steering)
    loaded = steered(open_model(model), wish)
    tokenizer = loaded.tokenizer()
    note(loaded.describe())
    if text is None:
        from whitedwarf.cli.repl import Repl

        Repl(loaded, tokenizer, chat.system, thinking, sampling, wish).run()
        return 0
    from whitedwarf.cli.oneshot import answer_once

    answer = answer_once(loaded, tokenizer, text, chat.system, thinking, sampling)
    return INTERRUPTED if answer.is_interrupted else 0
