"""`whitedwarf cluster keys`: by what the machines of a cluster know each other."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.cluster_extra import check_extra

LONGEST_DAYS = 3650


def command(
    folder: Annotated[Path, Parameter(name="DIR", allow_leading_hyphen=True)],
    /,
    *,
    add: str | None = None,
    days: Annotated[int, Parameter(validator=Number(gte=1, lte=LONGEST_DAYS))] = 730,
) -> None:
    """Make an authority and this machine's keys; with --add, those of a further machine.

    Whoever has a folder of keys may do everything in the cluster, and run programs on its machines. Keep ca.key where
    you add machines, and nowhere else.

    Parameters
    ----------
    folder
        Folder for the keys; made if it is not there, private to you.
    add
        Name of a further machine: its keys go to DIR/NAME. Carry that folder there, by a way you trust.
    days
        How long the keys are good for.
    """
    check_extra()
    from whitedwarf.cluster.keys import add_keys, make_keys

    if add is None:
        keys = make_keys(folder, days)
        print(f"{keys.folder}: keys of this machine, and ca.key, with which further ones are added")
        print(f"next: whitedwarf cluster keys {folder} --add NAME for each further machine")
        return
    keys = add_keys(folder, add, days)
    print(f"{keys.folder}: keys of {add}; carry the folder there, and give it to --cluster-keys")
