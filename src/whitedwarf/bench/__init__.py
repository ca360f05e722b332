"""Instruments for speed. They measure, print a table and end with one JSON line; they never judge."""
