"""Additive scores of all pairs: in chunks, in a compiled loop, or with Triton."""
