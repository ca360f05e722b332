"""Instruments for quality: questions with known answers, and likelihoods of known continuations."""
