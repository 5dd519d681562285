"""Nadaraya-Watson regression is attention with the logarithm of a kernel as its score."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from attention_lab.argument_checks import check_counts
from attention_lab.attention import (
    Attention,
    Boxcar,
    Constant,
    Epanechnikov,
    Gaussian,
    Laplacian,
    Score,
    leave_out_mask,
)
from attention_lab.theorems.finding import Cell, Figure, Finding, seeded
from attention_lab.theorems.option_checks import check_list, check_tolerance
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series

Array = npt.NDArray[np.float64]


class Pair(NamedTuple):
    """A kernel K of the differences `u` `[..., d]`, and the score that is its logarithm."""

    kernel: Callable[[Array], Array]
    score: Callable[..., Score]


PAIRS = {
    "Gaussian": Pair(lambda u: np.exp(-(u**2).sum(-1) / 2), Gaussian),
    "Laplacian": Pair(lambda u: np.exp(-np.abs(u).sum(-1)), Laplacian),
    "Epanechnikov": Pair(lambda u: np.maximum(0.0, 1 - (u**2).sum(-1)), Epanechnikov),
    "boxcar": Pair(lambda u: ((u**2).sum(-1) <= 1).astype(np.float64), Boxcar),
    "constant": Pair(lambda u: np.ones(u.shape[:-1]), Constant),
}
"""Kernels as in the textbooks, written without attention."""


class KernelEquivalence:
    """Kernel regression is attention: `softmax(log K) = K / sum K` (Nadaraya 1964; Watson 1964).

        f(x) = sum_i K((x - x_i) w) y_i / sum_j K((x - x_j) w)

    The samples x_i are the keys, y_i the values, x the query. One side is this quotient in numpy. The other
    is our attention, both on the path used in training and on the one that forms the weights. If no sample
    has any weight, the quotient is undefined, and attention gives 0.

    Args:
        samples: n.
        queries: number of points at which f is estimated.
        widths: w, the inverse of the bandwidth.
        features: sizes d of x.
        tolerance: largest difference that counts as equal, in float64.
        pairs: kernels and scores; see `PAIRS`.
    """

    def __init__(
        self,
        samples: int = 50,
        queries: int = 100,
        widths: Sequence[float] = (0.5, 1.0, 3.0),
        features: Sequence[int] = (1, 3),
        tolerance: float = 1e-10,
        pairs: dict[str, Pair] | None = None,
    ) -> None:
        check_counts("theorem", 1, samples=samples, queries=queries)
        check_list("widths", widths, above=0)
        check_list("features", features, least=1, whole=True)
        check_tolerance(tolerance)
        self.samples, self.queries = samples, queries
        self.widths, self.features, self.tolerance = widths, features, tolerance
        self.pairs = PAIRS if pairs is None else pairs

    def run(self, seed: int) -> Finding:
        """Compare each kernel at every width and size, with all samples and leave-one-out."""
        rows: list[list[Cell]] = []
        rng = np.random.default_rng(seed)
        with seeded(seed):
            for name, pair in self.pairs.items():
                for size in self.features:
                    kept = rng.uniform(0, 5, (self.samples, size))
                    queries = rng.uniform(0, 5, (self.queries, size))
                    values = rng.normal(size=(self.samples, 1))
                    everywhere = [
                        self._compare(pair, width, places, kept, values, leave_out)
                        for width in self.widths
                        for places, leave_out in ((queries, False), (kept, True))
                    ]
                    differences = [max(column) for column in zip(*everywhere, strict=True)]
                    rows.append([name, size, *differences])
            figure = Figure("kernels", partial(draw_panels, self._panels(rng), title=_TITLE, note=_NOTE))
        largest = max(float(cell) for row in rows for cell in row[2:])
        return Finding(
            title="Kernel regression is attention",
            claim="The Nadaraya-Watson estimate with a kernel K is attention with the score log K, the "
            "samples as keys and their targets as values.",
            source="Nadaraya 1964, Watson 1964",
            columns=(
                "kernel",
                "features",
                "difference of the estimates",
                "with weights kept",
                "of the weights",
            ),
            rows=rows,
            criterion="estimates and weights differ from the formula in numpy by less than "
            f"{self.tolerance:g} in float64, at every width, with all samples and with one left out",
            holds=largest < self.tolerance,
            figures=(figure,),
            notes=(f"widths {', '.join(f'{width:g}' for width in self.widths)}; {self.samples} samples",),
        )

    def _compare(
        self, pair: Pair, width: float, queries: Array, kept: Array, values: Array, leave_out: bool
    ) -> tuple[float, float, float]:
        """Differences of the estimates on the training path, of those from weights, and of the weights."""
        kernel = pair.kernel((queries[:, None] - kept) * width)
        if leave_out:
            np.fill_diagonal(kernel, 0.0)
        total = kernel.sum(-1, keepdims=True)
        weights = np.divide(kernel, total, out=np.zeros_like(kernel), where=total > 0)
        plain, pooled, seen = attend(pair.score, width, queries, kept, values, leave_out)
        expected = weights @ values
        return _apart(plain, expected), _apart(pooled, expected), _apart(seen, weights)

    def _panels(self, rng: np.random.Generator) -> list[Lines]:
        """The kernels, and the fit of each to noisy samples of a curve."""
        x = np.sort(rng.uniform(0, 5, (self.samples, 1)), 0)
        y = 2 * np.sin(x) + x**0.8 + rng.normal(scale=0.5, size=x.shape)
        places = np.linspace(0, 5, 201)[:, None]
        width = 2.0
        distances = np.linspace(-1.6, 1.6, 161)[:, None]
        shapes, fits = [], [Series("samples", x[:, 0].tolist(), y[:, 0].tolist(), style="dots", colour=6)]
        for number, (name, pair) in enumerate(self.pairs.items()):
            shapes.append(
                Series(
                    name,
                    distances[:, 0].tolist(),
                    pair.kernel(distances).tolist(),
                    style="plain",
                    colour=number,
                )
            )
            estimate, _, _ = attend(pair.score, width, places, x, y, leave_out=False)
            fits.append(
                Series(name, places[:, 0].tolist(), estimate[:, 0].tolist(), style="plain", colour=number)
            )
        return [
            Lines(shapes, "Kernels", "u = (x - x_i) w", "K(u)"),
            Lines(fits, f"Estimates by attention, w = {width:g}", "x", "y"),
        ]


_TITLE = "Kernel regression is attention with the score log K"
_NOTE = "samples of y = 2 sin x + x^0.8 + noise as keys and values, x as the query"


def attend(
    make: Callable[..., Score], width: float, queries: Array, kept: Array, values: Array, leave_out: bool
) -> tuple[Array, Array, Array]:
    """Estimates on the training path, estimates from the weights, and the weights."""
    size = kept.shape[-1]
    options = {} if make is Constant else {"width": width}
    attention = Attention(make(size, size, **options)).double()
    query, key, value = (torch.from_numpy(x) for x in (queries, kept, values))
    mask = leave_out_mask(torch.arange(len(query)), len(key)) if leave_out else None
    with torch.no_grad():
        memory = attention.remember(key, value, mask)
        plain = attention(query, memory)
        weights = attention.weights(query, memory)
        pooled = attention.pooling(weights, memory.value)
    return plain.numpy(), pooled.numpy(), weights.numpy()


def _apart(one: Array, other: Array) -> float:
    assert one.shape == other.shape
    return float(np.nan_to_num(np.abs(one - other).max(), nan=np.inf))
