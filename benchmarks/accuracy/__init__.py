"""Published tables of character transduction, with our columns: `python -m benchmarks.accuracy --help`."""
