"""Prefixes on disk: the second level of reuse (design.md §4), in files that ds4 also reads and writes, or in our own.

A file is a header (header.py), the prefix's text, a payload and perhaps a map of tool calls (tool_map.py); file.py puts
them together. The payload is a session as arrays (payload.py): dsv4.py or packed.py know its bytes. policy.py decides,
directory.py keeps the files, room.py the budget, store.py puts it together. Texts, token ids and plain arrays go in and
out; engine and model are unknown here.
"""
