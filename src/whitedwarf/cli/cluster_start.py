"""`whitedwarf cluster start`: a meeting place for machines that share a model."""

import asyncio
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cluster.place import DEFAULT_PORT
from whitedwarf.config import DEFAULT_TRUST, TrustSettings
from whitedwarf.errors import ClusterError


def command(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = DEFAULT_PORT,
    trust: TrustSettings = DEFAULT_TRUST,
) -> int:
    """Wait for members (`whitedwarf cluster join`) and coordinators (`run`, `serve`, ... with --cluster).

    It holds no part of a model and computes nothing; it knows who is there, and notices who is gone. Ctrl+C ends it;
    members keep what they have loaded, and come back when it is started again.

    Parameters
    ----------
    host
        Address to listen on; that of the network where the other machines are.
    port
        Port to listen on; 0 takes a free one.
    """
    from whitedwarf.cli.cluster_extra import settle
    from whitedwarf.cli.cluster_signals import run_until_signal
    from whitedwarf.cli.loading import note

    believed, patience = settle(trust)
    from whitedwarf.cluster.meeting import hold_meeting

    def tell(place: "asyncio.Future[str]") -> None:
        if not place.cancelled():
            note(f"meeting place at {place.result()}")

    async def hold(stop: asyncio.Event) -> None:
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        ready.add_done_callback(tell)
        try:
            await hold_meeting(host, port, believed, patience, stop, ready)
        except OSError as error:
            raise ClusterError(
                f"cannot listen on {host} port {port}: {error}; give another --host or --port"
            ) from error
        finally:
            ready.cancel()

    return run_until_signal(hold)
