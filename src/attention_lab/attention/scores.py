"""Scoring functions: log-kernels `log N(q, k)` that one softmax turns into weights.

Every score is built from the sizes of its query and key, `Score(query_size, key_size, heads=None)`;
with `heads` its parameters get a leading `[H, ...]` and it takes `[B, H, Q, d]`. What depends on the
key alone is computed once, by `keys`. Scores that are an inner product of features say so by
`features`, and that alone sends them down the fused path.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.errors import LabError


class Score(nn.Module):
    """A scoring function of queries `[..., Q, dq]` and keys `[..., K, dk]`.

    A subclass defines `forward`, or `features` if it is an inner product.
    """

    same_size = False
    """Whether query and key must have one size."""

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
        """What of the score depends on the key alone, computed once for a source."""
        return key

    def features(
        self,
        query: Float[Tensor, "... Q dq"],
        keys: Float[Tensor, "... K f"],
        mask: Bool[Tensor, "..."] | None,
    ) -> tuple[Tensor, Tensor] | None:
        """Features a `[..., Q, f]`, b `[..., K, f]` with score = a b^T up to a term of q alone, else None."""
        return None

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K f"]
    ) -> Float[Tensor, "... Q K"]:
        """Scores of every query against every key prepared by `keys`."""
        features = self.features(query, keys, None)
        assert features is not None, f"{type(self).__name__} defines neither forward nor features"
        return features[0] @ features[1].mT


class Dot(Score):
    """Dot product `q . k` (1508.04025, eq. 8)."""

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
    """General (bilinear) score `q^T W k` (1508.04025, eq. 8); sizes may differ."""

    def __init__(self, query_size: int, key_size: int, heads: int | None = None) -> None:
        super().__init__(query_size, key_size, heads)
        # Var(q^T W k) = dq dk Var(W): scores of variance 1 at the start, as with the scaled dot product.
        self.weight = self.parameter(query_size, key_size, std=(query_size * key_size) ** -0.5)

    def keys(self, key: Tensor) -> Tensor:
        """`W k`."""
        return key @ self.weight.mT

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The query, and W k."""
        return query, keys


class Additive(Score):
    """Additive score `w_v^T tanh(W_q q + W_k k)`, without bias (1409.0473, A.1.2); sizes may differ.

    `hidden_size` is the size of the sum; by default that of the query.
    """

    def __init__(
        self, query_size: int, key_size: int, heads: int | None = None, *, hidden_size: int | None = None
    ) -> None:
        super().__init__(query_size, key_size, heads)
        hidden_size = query_size if hidden_size is None else hidden_size
        self.query_weight = self.parameter(
            hidden_size, query_size, std=(2 / (query_size + hidden_size)) ** 0.5
        )
        self.key_weight = self.parameter(hidden_size, key_size, std=(2 / (key_size + hidden_size)) ** 0.5)
        self.value_weight = self.parameter(hidden_size, 1, std=hidden_size**-0.5)

    def keys(self, key: Tensor) -> Tensor:
        """`W_k k`."""
        return key @ self.key_weight.mT

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K h"]
    ) -> Float[Tensor, "... Q K"]:
        """`w_v^T tanh(W_q q + W_k k)` over all pairs; holds `[..., Q, K, h]`."""
        hidden = torch.tanh((query @ self.query_weight.mT).unsqueeze(-2) + keys.unsqueeze(-3))
        if self.heads is not None:
            return (hidden @ self.value_weight.unsqueeze(-3)).squeeze(-1)
        return (hidden @ self.value_weight).squeeze(-1)
