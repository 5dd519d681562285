"""The errors of a test: scored examples, their tables, and intervals of error rates."""
