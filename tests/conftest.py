"""Settings for all tests: no deadlines (the machines are shared), examples that come again in CI, a Ctrl+C that counts.

A shell starts what runs in its background with SIGINT ignored, and every process below inherits that.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
