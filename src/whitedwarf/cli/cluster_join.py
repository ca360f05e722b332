"""`whitedwarf cluster join`: hold some layers of a model for others."""

import asyncio
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.config import DEFAULT_MODEL, DEFAULT_TRUST, ModelSettings, TrustSettings
from whitedwarf.errors import UsageError


def command(
    place: Annotated[str, Parameter(name="HOST:PORT")],
    /,
    *,
    layers: str | None = None,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    trust: TrustSettings = DEFAULT_TRUST,
    model: ModelSettings = DEFAULT_MODEL,
) -> int:
    """Join a meeting place and compute some layers for whoever asks there, until Ctrl+C.

    Only these layers are loaded: at once with --layers, else as soon as a coordinator says which. They stay loaded when
    coordinators or the meeting place come and go. Context and --kv-cache are the coordinator's.

    Parameters
    ----------
    place
        Where `whitedwarf cluster start` listens.
    layers
        A:B, both included and counted from 0, or A:output for all from A on. Default: what a coordinator gives this
        machine by its memory and speed.
    host
        Address to listen on, for the coordinator and the machines with the layers before; that of the network where
        they are.
    port
        Port to listen on; 0 takes a free one.
    """
    from whitedwarf.cli.cluster_extra import settle
    from whitedwarf.cli.cluster_part import open_parts
    from whitedwarf.cli.cluster_signals import run_until_signal
    from whitedwarf.cli.loading import note
    from whitedwarf.cluster.place import parse_place

    address = parse_place(place)
    if model.ssd_streaming:
        raise UsageError("--ssd-streaming is for a model on one machine: give this member fewer --layers instead")
    believed, patience = settle(trust)
    parts = open_parts(model, layers)
    from whitedwarf.cluster.member import Member, Place

    member = Member(parts.facts, parts.load, note)
    if parts.facts.asked is not None:
        member.load(parts.wish(parts.facts.asked))

    async def stay(stop: asyncio.Event) -> None:
        await member.run(Place(believed.address(*address), host, port, believed), patience, stop)

    return run_until_signal(stay)
