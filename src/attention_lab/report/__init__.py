"""Runs, and comparisons of runs, as one HTML file."""
