"""OpenAI Chat Completions: requests in, chunks and bodies out (spec/recipe.md 3, 13)."""
