"""Fast paths, each tested against a plain reference: the formula in `attention.py`, or one beside the path.

They are exact, up to rounding. Only kernel regression may be given a `tolerance`, which bounds its error.
"""
