"""What quantisers should care about: texts to run a model over, and what its weights are multiplied with meanwhile."""
