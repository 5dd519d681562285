"""Choose the weight of the darkest colour for maps that are compared with one another."""

from collections.abc import Iterable
from math import floor, log10
from typing import Any

import numpy as np
import numpy.typing as npt

_STEPS = (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10)
"""Round numbers whose quarters, which a colour bar shows, have at most three digits."""
_LOW = 0.5
"""If no weight is larger than this, all are pale on a scale that ends at 1."""


def rounded_top(maps: Iterable[npt.NDArray[Any]]) -> float:
    """The largest finite weight of all maps, rounded up; 1 if it is above 0.5, or no weight is above 0.

    Pass all maps that are compared together, such as the heads of an attention or its maps at several steps.
    So weights of at most 0.15, as in kernel regression, are visible instead of nearly white.
    """
    largest = max((float(one.max(initial=0.0, where=np.isfinite(one))) for one in maps), default=0.0)
    if not 0 < largest <= _LOW:
        return 1.0
    largest = max(largest, float(np.finfo(np.float64).tiny))  # 10^-324 would be 0
    unit = 10.0 ** floor(log10(largest))
    return next(float(f"{step * unit:.3g}") for step in _STEPS if step * unit >= largest * (1 - 1e-6))
