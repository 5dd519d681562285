"""Gaussian kernel regression: all pairs in chunks, near pairs by sorting, or Chebyshev cells in O(n)."""
