"""Fast paths, each tested against a plain reference: the formula in `attention.py`, or one beside the path.

They are exact, up to rounding. Only `model.tolerance` allows kernel regression an error, which it bounds.
"""
