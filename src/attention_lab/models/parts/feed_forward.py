"""The feed-forward network of a Transformer's layers."""

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
