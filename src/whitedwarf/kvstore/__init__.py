"""Prefixes on disk: the second level of reuse (design.md §4), in files that ds4 also reads and writes.

file.py knows the bytes of a file around its payload, payload.py those of the payload, policy.py decides, directory.py
keeps the files, store.py puts it together. Texts, token ids and plain arrays go in and out; engine and model are
unknown here.
"""
