"""dask as we run it: every setting that matters is ours, whatever files or variables of dask are on this machine.

dask's configuration is of the whole process, which is ours alone wherever a cluster is used. No pages, no statistics,
no compression, no spilling to disk, no threads for messages: a cluster here is a handful of long connections.
"""

import logging
import sys
from typing import Any

import dask.config

from whitedwarf.cluster.patience import Patience

TURN_S = 0.0005  # Python's 5 ms are long for a message that waits while a layer is computed (docs/log.md)


def apply_settings(patience: Patience, *, is_debug: bool = False) -> None:
    """Forget what was configured for dask, and set it up as this project wants it; threads of this process take turns
    more often."""
    sys.setswitchinterval(TURN_S)
    dask.config.refresh(paths=[], env={})
    dask.config.set(_settings(patience))
    _quieten(is_debug=is_debug)


def _settings(patience: Patience) -> dict[str, Any]:
    return {
        "distributed.version": 2,
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-ttl": f"{3 * patience.silence_s}s",
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.active-memory-manager.start": False,
        "distributed.scheduler.idle-timeout": None,
        "distributed.scheduler.no-workers-timeout": None,
        "distributed.scheduler.events-cleanup-delay": "1m",
        "distributed.scheduler.http.routes": [],
        "distributed.scheduler.preload": [],
        "distributed.worker.preload": [],
        "distributed.worker.http.routes": [],
        "distributed.worker.profile.enabled": False,
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
        "distributed.client.heartbeat": f"{patience.pulse_s}s",
        "distributed.client.direct-to-workers": True,
        "distributed.comm.compression": False,
        "distributed.comm.offload": False,
        "distributed.comm.timeouts.connect": f"{patience.silence_s}s",
        "distributed.comm.timeouts.tcp": f"{patience.tcp_s}s",
        "distributed.comm.retry.count": 0,
        "distributed.admin.tick.interval": "500ms",
        "distributed.admin.system-monitor.interval": "5s",
        "distributed.admin.system-monitor.disk": False,
        "distributed.admin.system-monitor.gil.enabled": False,
        "distributed.diagnostics.nvml": False,
    }


def _quieten(*, is_debug: bool) -> None:
    """dask's own lines are for its developers; what users should know, we say."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    for name in ("distributed", *names):
        logging.getLogger(name).setLevel(logging.INFO if is_debug else logging.CRITICAL + 1)
