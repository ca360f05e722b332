"""How likely a model finds continuations that are known: the official model's, or those of an earlier build.

`collecting.py` asks an official-API-compatible endpoint, `measuring.py` scores what it said, `comparison.py` sets two
such scores side by side; `official_vectors.py` and `golden_vectors.py` are two formats of known candidates, which
`checking.py` holds a model to. Facts: spec/product.md E.4 and E.6, spec/model.md 8.4.
"""
