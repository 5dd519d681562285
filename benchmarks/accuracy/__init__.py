"""Published tables of character transduction, with our results: `python -m benchmarks.accuracy --help`."""
