"""The sublayers of a Transformer's layers: the feed-forward network, and the norm around each sublayer."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.attention import Dropout


class FeedForward(nn.Module):
    """`max(0, x W_1 + b_1) W_2 + b_2`, at each position separately (1706.03762, eq. 2).

    Args:
        size: size of input and output.
        hidden: size of the hidden layer.
        dropout: dropout probability on the hidden layer.
    """

    def __init__(self, size: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Linear(size, hidden)
        self.contract = nn.Linear(hidden, size)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*B T d"]) -> Float[Tensor, "*B T d"]:
        """The output for every position."""
        hidden = F.relu(self.expand(x), inplace=True)  # no gradient needs the input
        output: Tensor = self.contract(self.dropout(hidden))
        return output


class SublayerNorm(nn.LayerNorm):
    """The norm of one sublayer and its residual connection.

        pre:    x + f(LN(x))    (2002.04745, section 3)
        post:   LN(x + f(x))    (1706.03762, section 3.1)

    Args:
        size: size of the representations.
        norm: `pre` or `post`.
    """

    def __init__(self, size: int, norm: str) -> None:
        super().__init__(size)
        self.post = norm == "post"

    def before(self, x: Float[Tensor, "*B L d"]) -> Float[Tensor, "*B L d"]:
        """The input of the sublayer f."""
        return x if self.post else self(x)

    def add(self, x: Float[Tensor, "*B L d"], output: Float[Tensor, "*B L d"]) -> Float[Tensor, "*B L d"]:
        """The residual connection around the sublayer, from its input and its output."""
        total = x + output
        return self(total) if self.post else total


def final_norm(size: int, norm: str) -> nn.Module:
    """The norm after the last layer; with `post`, the layers themselves end in one."""
    return nn.Identity() if norm == "post" else nn.LayerNorm(size)
