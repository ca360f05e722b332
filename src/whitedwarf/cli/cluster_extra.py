"""Whether what a cluster needs is installed, said before anything is begun; and what all its commands begin with."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from whitedwarf.config import TrustSettings
from whitedwarf.errors import BackendError

if TYPE_CHECKING:
    from whitedwarf.cluster.patience import Patience
    from whitedwarf.cluster.security import Trust

HOW_TO_GET_IT = "pip install 'whitedwarf[cluster]'"


def check_extra() -> None:
    """BackendError where dask or the library for certificates is missing."""
    missing = [name for name in ("distributed", "cryptography") if find_spec(name) is None]
    if missing:
        raise BackendError(f"a cluster needs {' and '.join(missing)}: {HOW_TO_GET_IT}")


def settle(settings: TrustSettings, wait_s: float = 0.0) -> "tuple[Trust, Patience]":
    """Keys that are good, and dask set up as we want it; UsageError for settings that contradict each other."""
    check_extra()
    from whitedwarf.cluster.dask_settings import apply_settings
    from whitedwarf.cluster.patience import Patience
    from whitedwarf.cluster.security import Trust

    trust = Trust.of(settings.cluster_keys, is_plaintext=settings.plaintext)
    patience = Patience(silence_s=settings.cluster_patience, whole_s=wait_s)
    apply_settings(patience, is_debug=settings.debug)
    return trust, patience
