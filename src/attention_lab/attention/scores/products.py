"""Inner products as scores: dot, scaled dot, general, cosine, and the kernel of linear attention."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number
from attention_lab.attention.checks.tensors import check_floating, check_same_size, check_same_type
from attention_lab.attention.scores.projection import project
from attention_lab.attention.scores.score import Score
from attention_lab.attention.torch_state import without_autocast


class Dot(Score):
    """Dot product `q . k` (1508.04025, section 3.1)."""

    same_size = True

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query and the key themselves."""
        return query, keys


class ScaledDot(Score):
    """Scaled dot product `q . k / sqrt(d)` (1706.03762, eq. 1): variance 1 for unit-variance q, k."""

    same_size = True

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query over sqrt(d), and the key."""
        return query / math.sqrt(self.key_size), keys


class General(Score):
    """General (bilinear) score `q^T W k` (1508.04025, section 3.1); sizes may differ."""

    def __init__(self, query_size: int, key_size: int, heads: int | None = None) -> None:
        super().__init__(query_size, key_size, heads)
        # Var(q^T W k) = dq dk Var(W): initial scores have variance 1, as with the scaled dot product.
        self.weight = self.parameter(query_size, key_size, std=(query_size * key_size) ** -0.5)

    def keys(self, key: Tensor) -> Tensor:
        """`W k`."""
        return project(key, self.weight)

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query, and W k."""
        return query, keys


class Cosine(Score):
    """Cosine similarity times a sharpness, `b q . k / (|q| |k|)` (1410.5401, eq. 5 and 6).

    Args:
        query_size: size of the query, equal to `key_size`.
        key_size: size of the key.
        heads: if given, one sharpness for each head.
        sharpness: initial b, which is learned. Cosines lie in [-1, 1]: without b a softmax is almost flat.
    """

    same_size = True

    def __init__(
        self, query_size: int, key_size: int, heads: int | None = None, *, sharpness: float = 5.0
    ) -> None:
        super().__init__(query_size, key_size, heads)
        start = float(sharpness)
        check_number("scoring.sharpness", start)
        shape = () if heads is None else (heads, 1, 1)
        self.sharpness = nn.Parameter(torch.full(shape, start))

    def keys(self, key: Tensor) -> Tensor:
        """`k / |k|`."""
        return _unit(key)

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """`b q / |q|`, and the key at unit length."""
        return _unit(query) * self.sharpness, keys


class Linear(Score):
    """Linear attention as a log-kernel: `log(phi(q) . phi(k))`, `phi(x) = elu(x) + 1` (2006.16236, eq. 7).

    Under a softmax the weights are `phi(q) . phi(k_i) / sum_j phi(q) . phi(k_j)`, which `fast.linear`
    computes in time and memory linear in the length.
    """

    same_size = True

    def keys(self, key: Tensor) -> Tensor:
        """`phi(k)`, at least in float32: half precision rounds small features to zero."""
        return _phi(key)

    def kernel_features(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """`phi(q)` divided by its largest entry, so that it cannot overflow or underflow, and `phi(k)`."""
        return _scaled_phi(query)[0], keys

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """`log(phi(q) . phi(k))`; -inf where the features of a key underflow to zero."""
        check_same_size(query, keys)
        check_floating(query)
        with without_autocast(query):
            features, factor = _scaled_phi(query)
            check_same_type(features, keys, query, keys)
            kernel = features @ keys.mT
            positive = kernel > 0
            scores = torch.where(positive, kernel.where(positive, 1.0).log() + factor, -torch.inf)
        return scores.to(query.dtype)


def _phi(x: Tensor) -> Tensor:
    """`elu(x) + 1`, at least in float32, without `exp(x) - 1`, which loses digits of `exp(x)`."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    positive = x.relu()
    return (x - positive).exp() + positive  # not clamp_max, whose gradient at 0 is 0 from PyTorch 2.14 on


def _scaled_phi(x: Tensor) -> tuple[Tensor, Tensor]:
    """`phi(x)` divided by the largest number of each row, and the logarithm of that number."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    largest = x.detach().amax(-1, keepdim=True)
    shift, factor = largest.clamp_max(0.0), largest.clamp_min(0.0) + 1  # one of them is 0 or 1
    return _phi(x - shift) / factor, factor.log() + shift


def _unit(x: Tensor) -> Tensor:
    """`x / |x|`; 0 for a zero vector.

    Half precision is normalised in float32. A vector shorter than the smallest normal number of its type is
    zero in value and gradient: its gradient, of the order of `1 / |x|`, would overflow.
    """
    check_floating(x)
    working = torch.promote_types(x.dtype, torch.float32)
    if x.dtype == working:
        return F.normalize(x, dim=-1)
    wide = x.to(working)
    short = wide.detach().norm(dim=-1, keepdim=True) < torch.finfo(x.dtype).tiny
    return F.normalize(wide.masked_fill(short, 0.0), dim=-1).to(x.dtype)
