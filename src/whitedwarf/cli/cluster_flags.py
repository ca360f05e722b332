"""Options of a cluster beside those of a model, in the commands that take both."""

from dataclasses import replace
from typing import TypeVar

from whitedwarf.config import ClusterSettings, ModelSettings
from whitedwarf.errors import UsageError

_Settings = TypeVar("_Settings", bound=ModelSettings)


def over_cluster(model: _Settings, cluster: ClusterSettings) -> _Settings:
    """The model's settings with the cluster's, if one was named; UsageError for options of a cluster without one."""
    if cluster.cluster is not None:
        return replace(model, cluster=cluster)
    given = {
        "--layers": cluster.layers is not None,
        "--cluster-keys": cluster.cluster_keys is not None,
        "--plaintext": cluster.plaintext,
        "--debug": cluster.debug,
    }
    if named := [name for name, is_given in given.items() if is_given]:
        raise UsageError(f"{', '.join(named)}: for a model over several machines; give --cluster HOST:PORT, too")
    return model
