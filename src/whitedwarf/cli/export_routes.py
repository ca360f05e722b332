"""`whitedwarf export-routes`: what a client needs to reach a supervisor's models, ready to paste."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from whitedwarf.errors import UsageError

if TYPE_CHECKING:
    from whitedwarf.supervisor.routes import Route

Client = Literal["dsh", "opencode", "codex", "pi", "claude"]


def command(
    config: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    client: Annotated[Client, Parameter(name="--for")],
    out: Path | None = None,
    default: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    exact: bool = False,
    patch_file: bool = False,
) -> int:
    """Print a client's settings for all models of a supervisor's config, each at its public port.

    Parameters
    ----------
    config
        The config of the supervisor, which need not run.
    client
        Whose settings.
    out
        File to write instead of printing, for its owner alone; an earlier one is replaced.
    default
        Model that the client should use at first. Default: the first one; for DSH, none is set.
    exact
        Declare the true size of the context. Default: a size at which the client goes on well at the soft limit.
    patch_file
        For DSH: a whole file for `dsh --patch`. Default: pieces to paste into a patch of your own.
    """
    from whitedwarf.supervisor.checks import keys_of
    from whitedwarf.supervisor.config_file import read_config
    from whitedwarf.supervisor.routes import KEY_VARIABLE, routes_of

    if client != "dsh" and patch_file:
        raise UsageError("--patch-file is for --for dsh only: other clients have no patches; leave it out")
    decided = read_config(config)
    text, warnings = _text(routes_of(decided), client, default, is_exact=exact, is_patch=patch_file)
    if keys_of(decided) is not None:
        warnings.append(f"the supervisor asks for a key: set {KEY_VARIABLE} to one of those in {decided.api_key_file}")
    _write(text, out, config)
    for line in warnings:
        print(f"whitedwarf: warning: {line}", file=sys.stderr)
    return 0


def _text(
    routes: "list[Route]", client: Client, default: str | None, *, is_exact: bool, is_patch: bool
) -> tuple[str, list[str]]:
    from whitedwarf.supervisor import routes_agents as agents
    from whitedwarf.supervisor.routes import chosen
    from whitedwarf.supervisor.routes_dsh import dsh_text, dsh_warnings

    first = chosen(routes, default)
    if client == "dsh":
        if default is not None and not is_patch:
            raise UsageError("--default sets DSH's model in a whole patch: add --patch-file, or leave it out")
        text = dsh_text(routes, is_exact=is_exact, is_patch=is_patch, default=first if default is not None else None)
        return text, dsh_warnings(routes, is_exact=is_exact)
    unknown = [f"{route.key}: its context is unknown; say ctxSize" for route in routes if not route.context_size]
    if client == "opencode":
        return agents.opencode_text(routes, first, is_exact=is_exact), unknown
    if client == "pi":
        return agents.pi_text(routes, is_exact=is_exact), unknown
    if client == "codex":
        return agents.codex_text(routes, first, is_exact=is_exact), unknown
    return agents.claude_text(routes, first, is_exact=is_exact), unknown


def _write(text: str, out: Path | None, config: Path) -> None:
    from whitedwarf.cli.output_file import check_output, write_private
    from whitedwarf.cli.utf8_output import speak_utf8

    if out is None:
        speak_utf8()
        print(text, end="")
        return
    check_output(out, [config])
    write_private(out, text)
