"""Additive scores of all pairs, by chunks, by a compiled loop, or by Triton."""
