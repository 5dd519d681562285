"""Scoring functions: log-kernels `log N(q, k)` that one softmax turns into weights.

Every score is built from the sizes of its query and key, `Score(query_size, key_size, heads=None)`;
with `heads` its parameters get a leading `[H, ...]` and it takes `[B, H, Q, d]`. The part that depends only
on the key is computed once, by `keys`. Scores that are an inner product of features declare it by defining
`features`; that is all it takes to use the fused path.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.fast.additive.forms import ACTIVATIONS as ACTIVATIONS
from attention_lab.attention.fast.additive.scores import additive_scores
from attention_lab.errors import LabError


class Score(nn.Module):
    """A scoring function of queries `[..., Q, dq]` and keys `[..., K, dk]`.

    A subclass defines `forward`, or `features` if it is an inner product.
    """

    same_size = False
    """Whether query and key must have the same size."""
    is_placed = False
    """Whether the score of a key depends on its position among the keys."""

    def __init__(self, query_size: int, key_size: int, heads: int | None = None) -> None:
        super().__init__()
        if self.same_size and query_size != key_size:
            raise LabError(
                f"{type(self).__name__} needs query and key of one size, got {query_size} and {key_size}: "
                "set equal sizes, or choose scoring=general or scoring=additive"
            )
        self.query_size, self.key_size, self.heads = query_size, key_size, heads

    def parameter(self, *shape: int, std: float) -> nn.Parameter:
        """A normally distributed parameter, one for each head."""
        heads = () if self.heads is None else (self.heads,)
        return nn.Parameter(torch.randn(*heads, *shape) * std)

    def keys(self, key: Float[Tensor, "... K dk"]) -> Float[Tensor, "... K f"]:
        """The part of the score that depends only on the key, computed once for a source."""
        return key

    def features(
        self,
        query: Float[Tensor, "... Q dq"],
        keys: Float[Tensor, "... K f"],
        mask: Bool[Tensor, "..."] | None,
    ) -> tuple[Tensor, Tensor] | None:
        """Features a `[..., Q, f]`, b `[..., K, f]` with score = a b^T, or None if there are none.

        The equality may leave out a term that depends only on q, which a softmax cancels.
        """
        return None

    def kernel_features(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor] | None:
        """Features a, b >= 0 with exp(score) = a b^T, for attention in linear time, or None if none exist."""
        return None

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K f"]
    ) -> Float[Tensor, "... Q K"]:
        """Scores of every query against every key prepared by `keys`."""
        features = self.features(query, keys, None)
        assert features is not None, f"{type(self).__name__} defines neither forward nor features"
        return features[0] @ features[1].mT


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
        return key @ self.weight.mT

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query, and W k."""
        return query, keys


class Cosine(Score):
    """Cosine similarity times a sharpness, `b q . k / (|q| |k|)` (1410.5401, eq. 5 and 6).

    Args:
        query_size: size of the query, equal to `key_size`.
        key_size: size of the key.
        heads: if given, one sharpness for each head.
        sharpness: initial b; it is learned. Cosines lie in [-1, 1]: without b a softmax is almost flat.
    """

    same_size = True

    def __init__(
        self, query_size: int, key_size: int, heads: int | None = None, *, sharpness: float = 5.0
    ) -> None:
        super().__init__(query_size, key_size, heads)
        shape = () if heads is None else (heads, 1, 1)
        self.sharpness = nn.Parameter(torch.full(shape, float(sharpness)))

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
        """`phi(q)` and `phi(k)`."""
        return _phi(query), keys

    def forward(
        self, query: Float[Tensor, "... Q d"], keys: Float[Tensor, "... K d"]
    ) -> Float[Tensor, "... Q K"]:
        """`log(phi(q) . phi(k))`; -inf where the features underflow to zero."""
        with torch.autocast(query.device.type, enabled=False):
            kernel = _phi(query) @ keys.mT
            positive = kernel > 0
            scores = torch.where(positive, kernel.where(positive, 1.0).log(), -torch.inf)
        return scores.to(query.dtype)


class Location(Score):
    """Location score `a = W h` over key positions (1508.04025, eq. 8): no key enters.

    Args:
        query_size: size of the query.
        key_size: size of the key, unused.
        heads: if given, one W for each head.
        length: number of rows of W, the largest number of keys.

    Raises:
        LabError: (when used) there are more than `length` keys.
    """

    is_placed = True

    def __init__(self, query_size: int, key_size: int, heads: int | None = None, *, length: int = 64) -> None:
        super().__init__(query_size, key_size, heads)
        if length < 1:
            raise LabError(f"scoring.length must be at least 1, got {length}")
        self.length = length
        self.weight = self.parameter(length, query_size, std=query_size**-0.5)

    def keys(self, key: Tensor) -> Tensor:
        """An empty tensor that only carries the number of keys."""
        return key[..., :0]

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K f"]
    ) -> Float[Tensor, "... Q K"]:
        """The first K rows of `W h`."""
        count = keys.shape[-2]
        if count > self.length:
            raise LabError(
                f"scoring=location was made for {self.length} positions, got {count}: "
                f"set scoring.length={count} or more"
            )
        return query @ self.weight[..., :count, :].mT


class Additive(Score):
    """Additive score `w_v^T f(W_q q + W_k k)`, without bias; sizes may differ.

    With f = tanh it is that of 1409.0473, A.1.2; with f = leaky_relu that of 2105.14491, eq. 7 (GATv2).
    The sums of all pairs are never in memory at once; see `fast.additive`.

    Args:
        query_size: size of the query.
        key_size: size of the key.
        heads: if given, separate weights for each head.
        hidden_size: size of the sum; by default that of the query.
        activation: f, one of `ACTIVATIONS`.
        compiled: whether inductor compiles large calls; None: only if the compilation pays off.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        heads: int | None = None,
        *,
        hidden_size: int | None = None,
        activation: str = "tanh",
        compiled: bool | None = None,
    ) -> None:
        super().__init__(query_size, key_size, heads)
        if activation not in ACTIVATIONS:
            raise LabError(
                f"scoring.activation={activation} is unknown: choose one of {', '.join(ACTIVATIONS)}"
            )
        if hidden_size is not None and hidden_size < 1:
            raise LabError(f"scoring.hidden_size must be at least 1, got {hidden_size}")
        hidden_size = query_size if hidden_size is None else hidden_size
        self.activation, self.compiled = activation, compiled
        self.make_projections(hidden_size)
        self.value_weight = self.parameter(hidden_size, 1, std=hidden_size**-0.5)

    def make_projections(self, hidden_size: int) -> None:
        """The parameters of both projections, two matrices, each with its own fan-out."""
        self.query_weight = self.parameter(
            hidden_size, self.query_size, std=(2 / (self.query_size + hidden_size)) ** 0.5
        )
        self.key_weight = self.parameter(
            hidden_size, self.key_size, std=(2 / (self.key_size + hidden_size)) ** 0.5
        )

    def projections(self) -> tuple[Tensor, Tensor]:
        """`W_q` and `W_k`."""
        return self.query_weight, self.key_weight

    def keys(self, key: Tensor) -> Tensor:
        """`W_k k`."""
        return key @ self.projections()[1].mT

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K h"]
    ) -> Float[Tensor, "... Q K"]:
        """`w_v^T f(W_q q + W_k k)` over all pairs."""
        projected = query @ self.projections()[0].mT
        return additive_scores(
            projected, keys, self.value_weight.squeeze(-1), self.activation, compiled=self.compiled
        )


class Concat(Additive):
    """Concat score `w_v^T f(W [q; k])` (1508.04025, section 3.1): additive, with W = [W_q, W_k] in one."""

    def make_projections(self, hidden_size: int) -> None:
        """One matrix, with one fan-out."""
        size = self.query_size + self.key_size
        self.weight = self.parameter(hidden_size, size, std=(2 / (size + hidden_size)) ** 0.5)

    def projections(self) -> tuple[Tensor, Tensor]:
        """The columns of W for the query, and those for the key."""
        return self.weight[..., : self.query_size], self.weight[..., self.query_size :]


def _phi(x: Tensor) -> Tensor:
    """`elu(x) + 1`, at least in float32."""
    return F.elu(x.to(torch.promote_types(x.dtype, torch.float32))) + 1


def _unit(x: Tensor) -> Tensor:
    """`x / |x|`; 0 for a zero vector.

    Half precision is normalised in float32. A vector shorter than the smallest normal number of its type is
    zero in value and gradient: its gradient, of the order of `1 / |x|`, would overflow.
    """
    working = torch.promote_types(x.dtype, torch.float32)
    if x.dtype == working:
        return F.normalize(x, dim=-1)
    wide = x.to(working)
    short = wide.detach().norm(dim=-1, keepdim=True) < torch.finfo(x.dtype).tiny
    return F.normalize(wide.masked_fill(short, 0.0), dim=-1).to(x.dtype)
