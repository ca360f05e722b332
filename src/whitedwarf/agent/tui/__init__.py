"""The agent on the whole screen. The only place of the package that knows textual."""
