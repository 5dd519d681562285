"""The base class of all scores."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_heads, check_number, kind_of
from attention_lab.attention.checks.tensors import check_same_size, check_same_type
from attention_lab.errors import LabError, PartError


class Score(nn.Module):
    """A scoring function of queries `[..., Q, dq]` and keys `[..., K, dk]`.

    A subclass defines `forward`, or `features` if it is an inner product.
    """

    same_size = False
    """Whether query and key must have the same size."""
    depends_on_position = False
    """Whether the score of a key depends on its position among the keys."""
    keeps_features = False
    """Whether autocast leaves the features as they are, because rounding them would change the score."""

    def __init__(self, query_size: int, key_size: int, heads: int | None = None) -> None:
        super().__init__()
        check_number("query_size", query_size, least=1, whole=True)
        check_number("key_size", key_size, least=1, whole=True)
        check_heads(heads=heads)
        if self.same_size and query_size != key_size:
            raise LabError(
                f"{type(self).__name__} needs query and key of the same size, got {query_size} and "
                f"{key_size}: set equal sizes, or choose scoring=general or scoring=additive"
            )
        kind = type(self)
        if kind.forward is Score.forward and kind.features is Score.features:
            raise TypeError(
                f"{kind.__name__} must define forward(query, keys), or features(query, keys, mask) if it is "
                "an inner product"
            )
        self.query_size, self.key_size, self.heads = query_size, key_size, heads

    def extra_repr(self) -> str:
        """The sizes, for `print(model)`."""
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"query_size={self.query_size}, key_size={self.key_size}{heads}"

    def parameter(self, *shape: int, std: float) -> nn.Parameter:
        """A normally distributed parameter, with a leading head dimension if there are heads."""
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
        """Features a `[..., Q, f]`, b `[..., K, f]` with score = a b^T; None if the score has no such form.

        If `forward` is defined as well, the equality may leave out a term that depends only on q, which a
        softmax cancels.
        """
        return None

    def kernel_features(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor] | None:
        """Features a, b >= 0 with exp(score) = a b^T, for attention in linear time, or None if none exist.

        The equality may leave out a factor that depends only on q, which a softmax cancels.
        """
        return None

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K f"]
    ) -> Float[Tensor, "... Q K"]:
        """Scores of every query against every key prepared by `keys`."""
        features = checked_features(self, self.features(query, keys, None))
        check_same_size(*features)
        check_same_type(*features, query, keys)
        return features[0] @ features[1].transpose(-2, -1)  # the older exporter to ONNX lacks `mT`


def checked_features(score: Score, features: object) -> tuple[Tensor, Tensor]:
    """The features from a score, perhaps the user's own. Raises PartError unless they are two tensors."""
    if (
        isinstance(features, tuple)
        and len(features) == 2
        and all(isinstance(one, Tensor) for one in features)
    ):
        return features
    raise PartError(
        f"{type(score).__name__}.features must return two tensors, the features of the queries and "
        f"those of the keys, not {kind_of(features)}"
    )
