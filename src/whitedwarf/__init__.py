"""whitedwarf: DeepSeek V4 on your own machines.

Importing the package imports nothing heavy (no numpy): the command line must start in a blink.
"""

__version__ = "0.1.0"
