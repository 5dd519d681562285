"""Speed, memory and error of our parts beside textbook code and peers: `python -m benchmarks --help`."""
