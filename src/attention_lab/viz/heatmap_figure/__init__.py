"""Heatmaps as a matplotlib figure, for notebooks and papers."""
