"""Data sets that are sampled from a seed."""
