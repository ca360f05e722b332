"""The API dialects: requests as JSON to a Conversation and options, events to JSON answers. Pure functions, no HTTP."""
