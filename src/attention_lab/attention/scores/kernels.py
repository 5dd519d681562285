"""Kernels of a distance as scores: Nadaraya-Watson regression is attention with one of these.

`f(x) = sum_i K((x - x_i) w) y_i / sum_j K((x - x_j) w)` is a softmax over `log K`. The width `w` is
the inverse of the bandwidth; it is a learnable parameter, one number or one for each feature.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number
from attention_lab.attention.scores.distances import distance, squared_distance
from attention_lab.attention.scores.score import Score
from attention_lab.attention.torch_state import has_values


class Kernel(Score):
    """A score that depends only on `u = (q - k) w`.

    Args:
        query_size: size of the query, equal to `key_size`.
        key_size: size of the key.
        heads: if given, one width for each head.
        width: initial w; by default `key_size ** -0.25`, which gives the Gaussian scores about unit
            variance for unit-variance queries and keys, and is 1 for a single feature. Kernels with compact
            support default to `key_size ** -0.5 / 2`, which puts such pairs inside the support: a pair
            outside has no gradient.
        learnable: whether w is trained.
        per_feature: one w for each feature instead of one for all.
    """

    same_size = True
    has_gradient = True
    """Whether the scores have a gradient with respect to the width."""
    is_compact = False
    """Whether the kernel is zero beyond some distance."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        heads: int | None = None,
        *,
        width: float | None = None,
        learnable: bool = True,
        per_feature: bool = False,
    ) -> None:
        super().__init__(query_size, key_size, heads)
        self.width_is_given = width is not None
        usual = 0.5 * key_size**-0.5 if self.is_compact else key_size**-0.25
        start = usual if width is None else float(width)
        check_number("scoring.width", start, above=0)
        shape = [key_size if per_feature else 1]
        shape = shape if heads is None else [heads, 1, *shape]
        self.width = nn.Parameter(torch.full(shape, start), requires_grad=learnable)


class Gaussian(Kernel):
    """Gaussian kernel `exp(-|u|^2 / 2)`: score `-|(q - k) w|^2 / 2`.

    Up to a term that depends only on q, it is an inner product, `[wq, 1] . [wk, -|wk|^2 / 2]`, taken about
    the centre of the keys. That form has rounding errors of `eps * |wq| |wk|`, and is used only while they
    are small. Half precision is computed in float32.
    """

    keeps_features = True

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """`-|(q - k) w|^2 / 2`, computed from differences: exact at any offset."""
        return log_gaussian(query, keys, self.width)

    def features(
        self, query: Tensor, keys: Tensor, mask: Bool[Tensor, "..."] | None
    ) -> tuple[Tensor, Tensor] | None:
        """`[wq, 1]` and `[wk, -|wk|^2 / 2]` about the centre; None where rounding errors would matter.

        None also for a single query, whose differences from the keys take less time than the keys' features.
        They depend on values, so there are no features in exported code, under `vmap`, or where tensors have
        only shapes. In compiled code the choice breaks the graph: without features, long inputs take several
        times as long; PyTorch 2.11 goes without them, as it cannot continue after such a break.
        """
        # Instead of our `exporting`, because it is also True in all code that PyTorch 2.11 compiles.
        if torch.compiler.is_exporting() or not (torch.compiler.is_compiling() or has_values(keys)):
            return None
        if query.shape[-2] == 1:
            return None
        # Also the width, because the gradients of its two uses may cancel.
        query, keys, width = (
            x.to(torch.promote_types(x.dtype, torch.float32)) for x in (query, keys, self.width)
        )
        visible = torch.ones_like(keys[..., :1])
        if mask is not None:
            visible = mask.any(-2).unsqueeze(-1).to(keys.dtype).expand_as(visible)
        # The result does not depend on the centre, so it needs no gradient.
        centre = (
            (keys * visible).sum(-2, keepdim=True) / visible.sum(-2, keepdim=True).clamp_min(1)
        ).detach()
        query, keys = (query - centre) * width, (keys - centre) * visible * width
        if not _inner_product_is_exact(query.detach(), keys.detach()):
            return None
        half_square = keys.square().sum(-1, keepdim=True) * -0.5
        return torch.cat([query, torch.ones_like(query[..., :1])], -1), torch.cat([keys, half_square], -1)


class Laplacian(Kernel):
    """Laplacian kernel `exp(-|u|_1)`: score `-|(q - k) w|_1`."""

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """`-|(q - k) w|_1`."""
        return log_laplacian(query, keys, self.width)


class Epanechnikov(Kernel):
    """Epanechnikov kernel `max(0, 1 - |u|^2)`: its logarithm, -inf outside the support."""

    is_compact = True

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """`log(1 - |u|^2)` inside the support, -inf outside."""
        return log_epanechnikov(query, keys, self.width)


class Boxcar(Kernel):
    """Boxcar kernel `1[|u| <= 1]`: score 0 inside, -inf outside. Its gradient w.r.t. w is zero everywhere."""

    has_gradient = False
    is_compact = True

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """0 inside the support, -inf outside."""
        return log_boxcar(query, keys, self.width)


class Constant(Score):
    """Constant kernel 1: all keys have the same weight, so attention is average pooling."""

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Zeros for every query and key, computed from them so that their gradients are zero, not None."""
        return (query * 0).sum(-1, keepdim=True), (keys * 0).sum(-1, keepdim=True)  # no sum may overflow


def log_gaussian(
    query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"], width: Tensor | None = None
) -> Tensor:
    """`-|(q - k) w|^2 / 2` of all pairs."""
    return squared_distance(query, keys, width) * -0.5


def log_laplacian(
    query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"], width: Tensor | None = None
) -> Tensor:
    """`-|(q - k) w|_1` of all pairs."""
    return -distance(query, keys, order=1.0, width=width)


def log_epanechnikov(
    query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"], width: Tensor | None = None
) -> Tensor:
    """`log(1 - |(q - k) w|^2)` of all pairs for which it is defined, -inf of all others."""
    return _log_inside(1 - squared_distance(query, keys, width))


def log_boxcar(
    query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"], width: Tensor | None = None
) -> Tensor:
    """0 for all pairs with `|(q - k) w| <= 1`, -inf for all others."""
    squares = squared_distance(query, keys, width)
    return torch.where(squares <= 1, squares * 0, -torch.inf)


def log_tricube(query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]) -> Tensor:
    """`3 log(1 - |q - k|^3)` of all pairs within a distance of 1, -inf of all others (Cleveland 1979)."""
    return 3 * _log_inside(1 - distance(query, keys, order=2.0) ** 3)


LOG_KERNELS = {
    "gaussian": log_gaussian,
    "epanechnikov": log_epanechnikov,
    "boxcar": log_boxcar,
    "laplacian": log_laplacian,
    "tricube": log_tricube,
}
"""The logarithm of each kernel, for inputs divided by the bandwidth; 0 at distance 0."""


def _log_inside(kernel: Tensor) -> Tensor:
    """The logarithm of positive numbers, -inf of others, with gradients that are finite everywhere."""
    inside = kernel > 0
    # The inner `where` keeps log's infinite slope out of the gradient of the entries that are discarded.
    return torch.where(inside, kernel.where(inside, 1.0).log(), -torch.inf)


def _inner_product_is_exact(query: Tensor, keys: Tensor) -> Tensor | bool:
    """Whether the terms of the inner product are small enough for their rounding errors to be negligible.

    In float32 the limit keeps the error near 1e-5, with keys and queries within 25 bandwidths of the centre.
    The result is a tensor: a graph breaks without a warning where code branches on it, but not in `bool`.
    """
    if not query.numel() or not keys.numel():
        return True
    reach_query, reach_key = (x.square().sum(-1).max().sqrt() for x in (query, keys))
    limit = 625 * torch.finfo(torch.float32).eps / torch.finfo(keys.dtype).eps
    return reach_key * torch.maximum(reach_query, reach_key) <= limit
