"""The native agent: a coding agent whose session is the model's own state."""
