"""The arithmetic of the Apple backend in plain MLX, a file per kind: what runs where there is no Metal.

Every Metal kernel of ops/metal/ has its twin here, with the same signature. Nothing here is written for speed, and
nothing asks the machine to hold more than one decoded matrix or one block of keys at a time. A row's result has the
same bits whatever rows are computed beside it: products are taken row by row, sums over keys in blocks of fixed places.
"""
