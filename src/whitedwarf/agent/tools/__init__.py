"""What the agent can do: one tool, or one family of tools, per file."""
