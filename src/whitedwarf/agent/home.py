"""The user's home, also where there is none: a container's user may have neither HOME nor a name."""

import os
from pathlib import Path


def home() -> Path:
    """The home; without one a place where nothing is and nothing can be made: what is kept there is kept nowhere."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
