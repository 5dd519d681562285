"""A run's folder: its name, its results and its error analysis."""
