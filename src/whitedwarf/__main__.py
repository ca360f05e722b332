"""`python -m whitedwarf` is the command `whitedwarf`."""

import sys

from whitedwarf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
