"""Scores that depend on the position of a key, not on the key itself."""

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.argument_checks import check_number
from attention_lab.attention.scores.projection import project
from attention_lab.attention.scores.score import Score
from attention_lab.errors import LabError


class Location(Score):
    """Location score `a = W h` over key positions (1508.04025, eq. 8), independent of the keys themselves.

    Args:
        query_size: size of the query.
        key_size: size of the key, unused.
        heads: if given, one W for each head.
        length: number of rows of W, the largest possible number of keys.

    Raises:
        LabError: when called with more than `length` keys.
    """

    depends_on_position = True

    def __init__(self, query_size: int, key_size: int, heads: int | None = None, *, length: int = 64) -> None:
        super().__init__(query_size, key_size, heads)
        check_number("scoring.length", length, least=1, whole=True)
        self.length = length
        self.weight = self.parameter(length, query_size, std=query_size**-0.5)

    def extra_repr(self) -> str:
        """The sizes, for `print(model)`."""
        return f"{super().extra_repr()}, length={self.length}"

    def keys(self, key: Tensor) -> Tensor:
        """An empty tensor that only carries the number of keys and of examples."""
        return key[..., :0]

    def forward(
        self, query: Float[Tensor, "... Q dq"], keys: Float[Tensor, "... K f"]
    ) -> Float[Tensor, "... Q K"]:
        """The first K rows of `W h`, for each example of the keys."""
        count = _count(keys, self.length, "location")
        scores = project(query, self.weight[..., :count, :])
        leading = torch.broadcast_shapes(scores.shape[:-2], keys.shape[:-2])  # type: ignore[no-untyped-call]
        return scores.expand(*leading, -1, -1)


class QueryFree(Score):
    """A learned number for each key position, `a_i = b_i`, independent of query and key.

    Under a softmax this is a fully connected layer over the keys whose weights are positive and sum to one:
    it has parameters, but uses no query. It starts as average pooling, with all `b_i` equal to 0.

    Args:
        query_size: size of the query, unused.
        key_size: size of the key, unused.
        heads: if given, one set of numbers for each head.
        length: largest possible number of keys.

    Raises:
        LabError: when called with more than `length` keys.
    """

    depends_on_position = True

    def __init__(self, query_size: int, key_size: int, heads: int | None = None, *, length: int = 64) -> None:
        super().__init__(query_size, key_size, heads)
        check_number("scoring.length", length, least=1, whole=True)
        self.length = length
        self.weight = self.parameter(length, std=0.0)

    def extra_repr(self) -> str:
        """The sizes, for `print(model)`."""
        return f"{super().extra_repr()}, length={self.length}"

    def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """1 for each query and `b_i` for key i, computed from both: their gradients are zero, not None."""
        count = _count(keys, self.length, "query_free")
        number = self.weight[..., :count].unsqueeze(-1)
        return (query * 0).sum(-1, keepdim=True) + 1, (keys * 0).sum(-1, keepdim=True) + number


def _count(keys: Tensor, length: int, scoring: str) -> int:
    """The number of keys `[..., K, f]`. Raises LabError if there are more than `length`."""
    count = keys.shape[-2]
    if count > length:
        raise LabError(
            f"scoring={scoring} was made for {length} positions, got {count}: "
            f"set scoring.length={count} or more"
        )
    return count
