"""`whitedwarf supervise CONFIG --install`: the unit is shown, and written only when that is confirmed."""

import os
import sys

from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor.config import SupervisorConfig
from whitedwarf.supervisor.units import Starter, UnitPlan, unit_plan


def install_unit(config: SupervisorConfig, starter: str, name: str, *, is_confirmed: bool) -> int:
    """Print the unit, or write it; the commands are printed either way and never run here."""
    plan = unit_plan(Starter(starter), config, name, sys.executable, os.environ)
    if is_confirmed:
        _write(plan)
        print(f"# written: {plan.path}")
    else:
        print(f"# {plan.path} (not written yet: --yes does)\n{plan.text}")
    print("# to start it:", *plan.commands, sep="\n")
    print("# to take it back:", *plan.undo, sep="\n")
    return 0


def _write(plan: UnitPlan) -> None:
    try:
        plan.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WhitedwarfError(f"cannot make the folder {plan.path.parent}: {error.strerror}") from error
    check_output(plan.path)
    write_text(plan.path, plan.text)
