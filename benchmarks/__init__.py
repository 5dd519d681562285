"""Compare speed, memory and error with textbook code and peers: `python -m benchmarks --help`."""
