"""A run's folder: its name, its results, error analysis and the HTML report."""
