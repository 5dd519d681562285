"""Normalisers turn scores and a mask into weights. Apart from the fast paths, only they mask scores."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_heads, check_number, kind_of
from attention_lab.attention.checks.masks import check_mask
from attention_lab.attention.masks import known_all_true
from attention_lab.attention.simplex import entmax15, sparsemax


def masked_softmax(
    scores: Float[Tensor, "... Q K"],
    mask: Bool[Tensor, "..."] | None = None,
    temperature: float | Tensor = 1.0,
) -> Float[Tensor, "... Q K"]:
    """Softmax over the keys that the mask keeps: `exp(s_i / T) / sum_j exp(s_j / T)`.

    A key whose score is -inf (outside the support of a compact kernel) counts as masked. A row
    with no key left is all zeros, in value and in gradient, never NaN.

    Args:
        scores: `[..., Q, K]`; half precision is normalised in float32 and cast back.
        mask: boolean, broadcastable to the scores, True = attend.
        temperature: T; a larger T gives flatter weights. A tensor broadcasts to the scores.

    Raises:
        TypeError: the scores or the mask are not a tensor.
        ValueError: the scores are not floating-point, or the mask is not boolean, or does not broadcast to
            them.
        LabError: the temperature is a number that is not above 0.
    """
    _check_scores(scores)
    dtype, working = scores.dtype, torch.promote_types(scores.dtype, torch.float32)
    scores = _visible(scores, mask, temperature)
    if not scores.shape[-1]:
        return scores.to(dtype)
    seen = scores.detach().amax(-1, keepdim=True) != -torch.inf
    if known_all_true(seen):
        return torch.softmax(scores, dim=-1, dtype=working).to(dtype)
    # Replace empty rows before the softmax, or their NaN would come back through the gradient.
    empty = ~seen
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1, dtype=working).masked_fill(empty, 0.0)
    return weights.to(dtype)


def _visible(scores: Tensor, mask: Tensor | None, temperature: float | Tensor) -> Tensor:
    """The scores over the temperature, -inf for masked keys."""
    working = torch.promote_types(scores.dtype, torch.float32)
    if isinstance(temperature, Tensor):
        scores = scaled_scores(scores.to(working), 1.0 / temperature)
    elif temperature != 1.0:
        if not torch.compiler.is_compiling():
            check_number("temperature", temperature, above=0)
        scores = scores.to(working) / temperature  # may overflow float16
    if mask is not None:
        _check(mask, scores)
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores


def scaled_scores(scores: Float[Tensor, "..."], factor: Tensor) -> Float[Tensor, "..."]:
    """`scores * factor`; a score of -inf stays -inf and adds nothing to the gradient of the factor."""
    outside = scores.detach() == -torch.inf
    return (scores.masked_fill(outside, 0.0) * factor).masked_fill(outside, -torch.inf)


@runtime_checkable
class Normalizer(Protocol):
    """Turns scores `[..., Q, K]` into weights >= 0 of the same shape, zero wherever masked.

    A plain softmax also has a property `softmax_scale`, the factor on the scores, which lets fused kernels
    compute it.
    """

    def __call__(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Weights for the scores under a boolean mask, True = attend."""


class _Tempered(nn.Module):
    """Base of the normalisers: a temperature divides the scores; it is learned if it is an `nn.Parameter`."""

    def __init__(self, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        if not isinstance(temperature, Tensor):
            check_number("normalizer.temperature", temperature, above=0)
        self.temperature = temperature

    def extra_repr(self) -> str:
        """The temperature, for `print(model)`, if it is a number other than 1."""
        fixed = not isinstance(self.temperature, Tensor) and self.temperature != 1
        return f"temperature={self.temperature}" if fixed else ""

    @property
    def softmax_scale(self) -> float | Tensor | None:
        """The factor on the scores if this is a plain softmax; else None."""
        return None


class Softmax(_Tempered):
    """`softmax(scores / temperature)` over unmasked keys; see `masked_softmax`."""

    @property
    def softmax_scale(self) -> float | Tensor:
        """`1 / temperature`."""
        return 1.0 / self.temperature

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights, summing to one in every row that has a key."""
        return masked_softmax(scores, mask, self.temperature)


class SinkSoftmax(_Tempered):
    """Softmax with an attention sink: `exp(s_i / T) / (exp(b) + sum_j exp(s_j / T))`.

    A head that finds no relevant key can leave its weight to the sink, which has no value, instead of giving
    it to the first key: a row sums to less than one. With b fixed at 0 it is SoftMax1, softmax-off-by-one
    (2309.17453, eq. 2); gpt-oss learns b for each head (2508.10925).

    Args:
        temperature: T.
        heads: if given, one sink for each head.
        sink: initial b. Scores of zero for n keys then get weights that sum to `n / (n + exp(b))`.
        learnable: whether b is trained.
    """

    def __init__(
        self,
        temperature: float | Tensor = 1.0,
        heads: int | None = None,
        *,
        sink: float = 0.0,
        learnable: bool = True,
    ) -> None:
        super().__init__(temperature)
        check_number("normalizer.sink", sink)
        check_heads(heads=heads)
        shape = (1,) if heads is None else (heads, 1, 1)
        self.sink = nn.Parameter(torch.full(shape, float(sink)), requires_grad=learnable)

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights, summing to less than one."""
        _check_scores(scores)
        visible = _visible(scores, mask, self.temperature)
        visible = visible.to(torch.promote_types(scores.dtype, torch.float32))
        rows = torch.broadcast_shapes(visible.shape[:-1], self.sink.shape[:-1])  # type: ignore[no-untyped-call]
        sink = self.sink.to(visible.dtype).expand(*rows, 1)
        both = torch.cat([visible.expand(*rows, -1), sink], -1)
        return torch.softmax(both, -1)[..., :-1].to(scores.dtype)


class Sparsemax(_Tempered):
    """Sparsemax, the projection onto the simplex, `argmin_p |p - s / T|^2` (1602.02068, eq. 2)."""

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights, summing to one in every row that has a key, most of them exactly zero."""
        return _on_simplex(sparsemax, scores, mask, self.temperature)


class Entmax15(_Tempered):
    """1.5-entmax, between softmax and sparsemax: `p_i = ((s_i / T) / 2 - tau)_+^2` (1905.05702, eq. 7)."""

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights, summing to one in every row that has a key, many of them exactly zero."""
        return _on_simplex(entmax15, scores, mask, self.temperature)


class Sigmoid(_Tempered):
    """Each key independently: `sigmoid(s_i / T - log n)`, n the number of keys (2409.04431, section 2).

    With this bias, scores of zero give weights that sum to n / (n + 1). A row does not sum to one.
    """

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights from 0 to 1, each independent of the others."""
        _check_scores(scores)
        working = torch.promote_types(scores.dtype, torch.float32)
        visible = _visible(scores, mask, self.temperature).to(working)
        count = (visible.detach() != -torch.inf).sum(-1, keepdim=True, dtype=working).clamp_min(1)
        return torch.sigmoid(visible - count.log()).to(scores.dtype)


def _check_scores(scores: object) -> None:
    """Raise TypeError if scores are not a tensor, ValueError if weights would be rounded to integers."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(scores, Tensor):
        raise TypeError(f"scores must be a tensor, not {kind_of(scores)}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating-point, got {scores.dtype}: give scores.float()")


def _check(mask: Tensor, scores: Tensor) -> None:
    """Raise ValueError if a mask does not fit the scores; not in compiled code, as in `check_memory`."""
    if not torch.compiler.is_compiling():
        check_mask(mask, scores.shape)


def _on_simplex(
    transform: Callable[[Tensor], Tensor], scores: Tensor, mask: Tensor | None, temperature: float | Tensor
) -> Tensor:
    """A sparse map to the simplex, over the keys that the mask keeps; an empty row gives zeros.

    Both maps give exactly zero to any score 2 or more below the largest, so a masked key gets such a score
    instead of an infinity, which would turn into NaN.
    """
    _check_scores(scores)
    outside = scores.detach() == -torch.inf  # of the support of a compact kernel
    if mask is not None:
        _check(mask, scores)
        outside = outside | ~mask
    working = torch.promote_types(scores.dtype, torch.float32)
    scaled = scores.to(working).masked_fill(outside, 0.0) / temperature
    if not scaled.shape[-1]:
        return scaled.to(scores.dtype)
    highest = scaled.detach().masked_fill(outside, -torch.inf).amax(-1, keepdim=True)
    shifted = scaled - highest.masked_fill(highest == -torch.inf, 0.0)  # the maps are invariant to a shift
    weights = transform(shifted.masked_fill(outside, -3.0))
    return weights.masked_fill(outside, 0.0).to(scores.dtype)
