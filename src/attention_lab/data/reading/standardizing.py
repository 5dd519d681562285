"""Standardise columns of numbers to mean 0 and deviation 1, and check that float32 can hold the results."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attention_lab.errors import LabError

LIMIT = 1e18
"""The largest number whose square fits into float32 with a margin; its inverse is the smallest difference."""
SMALLEST = torch.finfo(torch.float32).tiny
"""The smallest difference that float32 represents with full precision."""


def moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation [d] of each column of `values` [N, d] in float64.

    A constant column has its value as the mean, and deviation 1. Distances from the mean are scaled before
    they are squared, so the deviation is correct for numbers as small as 1e-310 and as large as 1e300.
    """
    constant = values.amin(0) == values.amax(0)
    mean = values.mean(0).where(~constant, values[0])
    distances = values - mean
    reach = distances.abs().amax(0).masked_fill(constant, 1.0)
    deviation = reach * (distances / reach).square().mean(0).sqrt()
    return mean, deviation.masked_fill(constant, 1.0)


def fit_scale(
    names: Sequence[str], values: Tensor, squared: Sequence[bool], standardize: bool
) -> tuple[list[float], list[float]]:
    """The mean and the deviation [d] by which to scale columns like those of `values`; 0 and 1 to keep them.

    Raises:
        LabError: `check_spreads` fails.
    """
    check_spreads(names, values, squared)
    columns = values.shape[1]
    mean, deviation = moments(values) if standardize else (torch.zeros(columns), torch.ones(columns))
    return mean.tolist(), deviation.tolist()


def scale(names: Sequence[str], values: Tensor, mean: Sequence[float], deviation: Sequence[float]) -> Tensor:
    """`(value - mean) / deviation` for each column of `values` [N, d] in float64.

    Raises:
        LabError: `check_sizes` fails.
    """
    scaled = (values - values.new_tensor(mean)) / values.new_tensor(deviation)
    check_sizes(names, values, scaled)
    return scaled


def check_spreads(names: Sequence[str], values: Tensor, squared: Sequence[bool]) -> None:
    """Reject columns of `values` [N, d] whose numbers are not finite, or differ by too little or too much.

    Args:
        names: names of the columns.
        values: values of the training split.
        squared: for each column, whether its differences are squared without standardisation.

    Raises:
        LabError: naming the first such column, and the factor by which to multiply or divide it.
    """
    spreads = (values.amax(0) - values.amin(0)).tolist()
    for name, spread, is_squared in zip(names, spreads, squared, strict=True):
        if not math.isfinite(spread):
            raise LabError(f"column {name!r}: not all of its numbers are finite")
        least, most = (1 / LIMIT, LIMIT) if is_squared else (SMALLEST, math.inf)
        if spread and not least <= spread <= most:
            power = math.floor(math.log10(spread))
            how = f"divide the column by 1e{power}" if power > 0 else f"multiply the column by 1e{-power}"
            raise LabError(
                f"column {name!r}: its numbers differ by up to {spread:.2g}, too "
                f"{'much' if power > 0 else 'little'} for float32: {how}"
            )


def check_sizes(names: Sequence[str], values: Tensor, scaled: Tensor) -> None:
    """Reject `values` [N, d] that are too large in the units of `scaled` [N, d].

    Raises:
        LabError: a value is too large; the message names the column of the first one.
    """
    too_large = (~(scaled.abs() <= LIMIT)).nonzero().tolist()
    if not too_large:
        return
    row, column = too_large[0]
    value, size = float(values[row, column]), float(scaled[row, column])
    if not math.isfinite(value):
        raise LabError(f"column {names[column]!r}: not all of its numbers are finite")
    if value == size:  # not scaled
        how = f"divide the column by 1e{math.floor(math.log10(abs(value)))}, or set data.standardize=true"
        raise LabError(f"column {names[column]!r}: {value:.4g} is too large to be squared in float32: {how}")
    raise LabError(
        f"column {names[column]!r}: {value:.4g} is {abs(size):.2g} standard deviations from the mean of the "
        "training split: correct it, or leave that row out"
    )
