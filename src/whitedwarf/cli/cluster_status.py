"""`whitedwarf cluster status`: who has joined, and what they hold."""

from typing import Annotated

from cyclopts import Parameter

from whitedwarf.config import DEFAULT_TRUST, TrustSettings


def command(
    place: Annotated[str, Parameter(name="HOST:PORT")],
    /,
    *,
    json: bool = False,
    trust: TrustSettings = DEFAULT_TRUST,
) -> None:
    """Ask a meeting place who is there.

    Parameters
    ----------
    place
        Where `whitedwarf cluster start` listens.
    json
        Everything, for scripts.
    """
    from json import dumps

    from whitedwarf.cli.cluster_extra import settle
    from whitedwarf.cluster.place import parse_place

    host, port = parse_place(place)
    believed, patience = settle(trust)
    from whitedwarf.cluster.overview import look

    overview = look(believed.address(host, port), believed, patience)
    print(dumps(overview.document()) if json else "\n".join(overview.lines()))
