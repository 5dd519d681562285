"""Arguments that the commands of the benchmarks share."""

import argparse


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return value
