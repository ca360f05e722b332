"""`whitedwarf serve`: the model behind OpenAI's and Anthropic's interfaces (spec/product.md B)."""

from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.config import (
    DEFAULT_CLUSTER,
    DEFAULT_MODEL,
    DEFAULT_SERVE,
    DEFAULT_STEERING,
    ClusterSettings,
    ModelSettings,
    ServeSettings,
    SteeringSettings,
)


def command(
    *,
    serve: ServeSettings = DEFAULT_SERVE,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
) -> int:
    """Serve one model to coding agents and other clients until SIGTERM or Ctrl+C.

    Speaks OpenAI Chat Completions, Responses and Completions, and Anthropic Messages. Logs go to stderr.
    """
    from whitedwarf.cli.serving import serve_model  # only now: brings the server and the engine

    return serve_model(serve, over_cluster(model, cluster), steering)
