"""A run's folder: its name, its options, its results and its test errors."""
