"""OpenAI Responses: requests in, events and bodies out (spec/recipe.md 4, 13)."""
