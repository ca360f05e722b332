"""Manners of every HTTP server of ours, whatever it serves: which pages may ask, which keys hold, where we listen."""
