"""How far results are from the expected ones."""

import math
from collections.abc import Sequence

from torch import Tensor


def relative_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest `max |a - b| / max |b|` over the tensors; infinite if a value is not finite."""
    if len(found) != len(expected):
        raise ValueError(f"a method gives {len(found)} results, the reference {len(expected)}")
    worst = 0.0
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            raise ValueError(f"result {number}: shape {tuple(a.shape)}, the reference has {tuple(b.shape)}")
        if b.numel():
            error = float((a.double() - b.double()).abs().max() / (b.double().abs().max() or 1.0))
            worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst
