"""Nadaraya-Watson kernel regression: attention from queries to the whole training set."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attention_lab.attention import Gaussian, Global, Kernel, Mechanism, Soft, leave_out_mask
from attention_lab.attention.attention import check_mechanism
from attention_lab.attention.fast.gaussian.regression import gaussian_regression
from attention_lab.attention.shortcuts import computes_as, scale_of
from attention_lab.errors import LabError
from attention_lab.sizes import RegressionSizes

SAMPLED, WIDTHS = 1000, 200
"""The most examples that the initial width is chosen on, and the number of widths that are tried."""
MANY = 2**27
"""Up to this many pairs of queries and keys, times features, all weights are in memory at once (0.5 GiB)."""
PART = 2**24
"""Beyond that, how many of them are in memory at a time. Blocks of half this size would be allocated on the
heap and fragment it, and memory would then grow with the number of pairs after all."""


class KernelRegression(nn.Module):
    """`f(x) = sum_i K(x - x_i) y_i / sum_j K(x - x_j)` (Nadaraya 1964, Watson 1964), as attention.

    Queries are inputs, keys the training inputs and values the training targets. A query that is itself a
    training sample leaves that sample out; otherwise, fitting the width would lead to memorisation.

    With the Gaussian kernel under a plain softmax this takes O(n) memory for any batch size, and O(n) time
    for a single feature; see `attention.fast.gaussian`. Any other mechanism computes all weights. If there
    are very many, they are computed for some queries at a time, and again in the backward pass.

    Args:
        mechanism: a kernel, or any other score, with normaliser and pooling.
        sizes: number of features, targets and samples of the training set.
        scan: start with the kernel width that has the smallest leave-one-out error on a logarithmic grid.
            Always done for a kernel whose error has no gradient w.r.t. the width (boxcar); never if the
            mechanism sets the width.
        tolerance: largest error of a prediction with the Gaussian kernel, relative to the largest target;
            used only for many samples of a single feature. None: rounding errors only.
    """

    keys: Tensor
    values: Tensor

    def __init__(
        self,
        mechanism: Mechanism,
        sizes: RegressionSizes,
        *,
        scan: bool = True,
        tolerance: float | None = 1e-6,
    ) -> None:
        super().__init__()
        check_mechanism(mechanism)
        if tolerance is not None and not 0 < tolerance < 1:
            raise LabError(f"model.tolerance must be above 0 and below 1, or null, got {tolerance}")
        self.scan, self.tolerance = scan, tolerance
        self.attention = mechanism(sizes.features, sizes.features)
        self.register_buffer("keys", torch.zeros(sizes.samples, sizes.features))
        self.register_buffer("values", torch.zeros(sizes.samples, sizes.targets))

    @property
    def width(self) -> Tensor | None:
        """The kernel's width w, the inverse of its bandwidth; None if the score has none."""
        score = self.attention.score
        return score.width if isinstance(score, Kernel) else None

    @torch.no_grad()
    def memorize(self, inputs: Float[Tensor, "N d"], targets: Float[Tensor, "N o"]) -> None:
        """Store the training set as keys and values, and scan for the initial width if required."""
        self.keys.copy_(inputs)
        self.values.copy_(targets)
        score = self.attention.score
        if isinstance(score, Kernel) and not score.width_is_given and (self.scan or not score.has_gradient):
            score.width.fill_(self._best_width(score))

    def forward(
        self, inputs: Float[Tensor, "B d"], index: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B o"]:
        """Predictions for `inputs`; `index` is each input's row in the training set, -1 if it has none.

        If no kernel reaches a query, its prediction is 0.
        """
        scale = self._gaussian_scale()
        if scale is not None:
            width = self.attention.score.width * scale**0.5
            return gaussian_regression(inputs, self.keys, self.values, width, index, self.tolerance)
        whole = len(inputs) * self.keys.numel() <= MANY or self.attention.record is not None
        if whole or not isinstance(self.attention.pooling, Soft):  # hard poolings record samples for the loss
            return self._attend(inputs, index, 0)
        rows = max(PART // self.keys.numel(), 1)
        starts = range(0, len(inputs), rows)
        indices = [None] * len(starts) if index is None else torch.split(index, rows)
        parts = zip(torch.split(inputs, rows), indices, starts, strict=True)
        return torch.cat([checkpoint(self._attend, *part, use_reentrant=False) for part in parts])

    def attend_to_all(self, inputs: Float[Tensor, "B d"]) -> Float[Tensor, "B o"]:
        """Predictions from the weights of all pairs at once: those of `forward`, without its fast paths."""
        memory = self.attention.remember(self.keys, self.values)
        return self.attention.pool(self.attention.weights(inputs, memory), memory.value)

    def _attend(self, inputs: Tensor, index: Tensor | None, start: int) -> Tensor:
        """The predictions for `inputs`, which are the queries at positions from `start` on."""
        mask = None if index is None else leave_out_mask(index, len(self.keys))
        memory = self.attention.remember(self.keys, self.values, mask)
        context: Tensor = self.attention(inputs, memory, offset=start)
        return context

    def _gaussian_scale(self) -> float | None:
        """The factor on the scores if this is currently a plain Gaussian kernel regression, else None."""
        attention = self.attention
        plain = (
            type(attention.score) is Gaussian
            and computes_as(attention.pooling, Soft)
            and computes_as(attention.window, Global)
            and attention.record is None
            and self.keys.device.type != "mps"  # which has no float64
        )
        scale = scale_of(attention.normalizer) if plain else None
        return None if isinstance(scale, Tensor) else scale

    def _best_width(self, score: Kernel) -> float:
        """The width of smallest leave-one-out error on a logarithmic grid over the scales of the data."""
        chosen = torch.linspace(
            0, len(self.keys) - 1, min(SAMPLED, len(self.keys)), device=self.keys.device
        ).long()
        inputs, targets = self.keys[chosen], self.values[chosen]
        spread = (inputs.amax(0) - inputs.amin(0)).max().clamp_min(1e-12)
        before = score.width.clone()
        widths: list[float] = torch.logspace(-1, 3.5, WIDTHS, device=spread.device).div(spread).tolist()

        best, best_error = -1, torch.inf

        def try_widths(indices: range) -> None:
            nonlocal best, best_error
            for index in indices:
                score.width.fill_(widths[index])
                error = (self(inputs, chosen) - targets).square().mean().item()
                if error < best_error:
                    best, best_error = index, error

        many = len(self.keys) > 10 * SAMPLED
        try_widths(range(0, WIDTHS, 8 if many else 1))
        if many and best >= 0:  # a full scan is slow: refine only around the best
            try_widths(range(max(best - 7, 0), min(best + 8, WIDTHS)))
        score.width.copy_(before)
        return widths[best] if best >= 0 else float(before.flatten()[0])
