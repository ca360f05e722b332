"""The tools of the native agent: one file per tool or family."""
