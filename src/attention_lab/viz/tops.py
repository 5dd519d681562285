"""The weight of the darkest colour, for maps that are compared with one another."""

from collections.abc import Iterable
from math import floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt

_STEPS = (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10)
"""Round numbers of whose quarters, which a colour bar shows, none has more than three digits."""
_LOW = 0.5
"""Up to here a largest weight is pale on a scale that ends at 1."""


def rounded_top(maps: Iterable[npt.NDArray[Any]]) -> float:
    """The largest finite weight of all maps, rounded up; 1 if it is above 0.5, or no weight is above 0.

    Maps that are compared, as the heads of an attention or one attention at several steps, are given here
    together; so weights of 0.15 at most, as in kernel regression, are seen and not nearly white.
    """
    largest = max((float(one[np.isfinite(one)].max(initial=0.0)) for one in maps), default=0.0)
    if not 0 < largest <= _LOW:
        return 1.0
    unit = 10.0 ** floor(log10(largest))
    return next(float(f"{step * unit:.3g}") for step in _STEPS if step * unit >= largest * (1 - 1e-6))
