"""`whitedwarf agent`: a coding agent whose session is the model's own state (spec/product.md C)."""

from whitedwarf.cli.agent_modes import chosen_mode
from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.cli.prompt_text import prompt_text
from whitedwarf.cli.serve_checks import enter
from whitedwarf.cli.thinking_flags import asked_thinking
from whitedwarf.config import (
    DEFAULT_AGENT,
    DEFAULT_AGENT_MODEL,
    DEFAULT_CLUSTER,
    DEFAULT_SAMPLING,
    DEFAULT_STEERING,
    AgentFlags,
    AgentModelSettings,
    ClusterSettings,
    SamplingSettings,
    SteeringSettings,
)


def command(
    *,
    agent: AgentFlags = DEFAULT_AGENT,
    sampling: SamplingSettings = DEFAULT_SAMPLING,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: AgentModelSettings = DEFAULT_AGENT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
) -> int:
    """Work on the files of a folder together with a model that reads, edits and runs things.

    It asks before it writes, runs or fetches anything, unless --allow or --yes say otherwise. Sessions are kept, and
    gone on with without reading anything again. docs/agent.md is the manual.
    """
    thinking = asked_thinking(agent)
    enter(agent.chdir)
    text = prompt_text(agent)
    mode = chosen_mode(agent, text)
    from whitedwarf.cli.agent_start import start  # only now: wrong arguments are told at once

    return start(mode, agent, thinking, text, sampling, steering, over_cluster(model, cluster))
