"""Anthropic Messages: requests in, events and bodies out (spec/recipe.md 5, 13)."""
