"""The supervisor's own process: `python -m whitedwarf.supervisor CONFIG`, which `whitedwarf supervise` becomes.

It is small because nothing of the command line is in it (docs/supervisor.md). Promises: 0 after an orderly end, 2 where
the config is wrong, one line for whatever people may have caused.
"""

import sys
from pathlib import Path

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor.checks import keys_of
from whitedwarf.supervisor.config_file import read_config

FAILED, WRONG_ARGUMENTS, INTERRUPTED = 1, 2, 130


def main(words: list[str]) -> int:
    """Serve the config's models until a signal; the exit code."""
    try:
        if len(words) != 1:
            raise UsageError("expected one config file: python -m whitedwarf.supervisor CONFIG")
        config = read_config(Path(words[0]))
        keys = keys_of(config)
        from whitedwarf.supervisor.main import run_supervisor  # brings asyncio: a wrong config is told sooner

        return run_supervisor(config, keys)
    except WhitedwarfError as error:
        print(f"whitedwarf: {' '.join(str(error).split())}", file=sys.stderr)
        return WRONG_ARGUMENTS if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
