"""Multi-head attention: projections around one attention that runs all heads at once."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.attention import Mechanism, Memory
from attention_lab.errors import LabError


class MultiHead(nn.Module):
    """`Concat(head_1, ..., head_H) W^O`, `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`.

    1706.03762, section 3.2.2, with any mechanism in the heads. A single head has W^Q, W^K, W^V too.

    Args:
        mechanism: makes the attention of the heads; a score with parameters has its own in each.
        size: d_model, that of the input and output.
        heads: H, a divisor of `size`; each head has d_k = d_v = size / H.
        dropout: of the attention weights.
    """

    def __init__(self, mechanism: Mechanism, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if size % heads:
            raise LabError(f"model.d_model={size} must be a multiple of model.heads={heads}")
        self.heads = heads
        self.project = nn.Linear(size, 3 * size)
        self.attention = mechanism(size // heads, size // heads, heads, dropout)
        self.output = nn.Linear(size, size)
        # W^Q, W^K and W^V are three matrices that happen to lie in one: each has its own fan-out.
        for part in self.project.weight.chunk(3):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.project.bias)

    def forward(
        self, x: Float[Tensor, "B L d"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B L d"]:
        """Self-attention of `x`; mask `[B, 1, L]`, `[B, L, L]` or `[L, L]`, True = attend."""
        query, key, value = self._split(self.project(x), 3)
        return self._join(self.attention(query, self.attention.remember(key, value, _for_heads(mask))))

    def remember(self, source: Float[Tensor, "B K d"], mask: Bool[Tensor, "..."] | None = None) -> Memory:
        """The keys and values of a source, for `attend`."""
        size = self.output.in_features
        key, value = self._split(F.linear(source, self.project.weight[size:], self.project.bias[size:]), 2)
        return self.attention.remember(key, value, _for_heads(mask))

    def attend(self, query: Float[Tensor, "B Q d"], memory: Memory) -> Float[Tensor, "B Q d"]:
        """Attention of `query` to a remembered source."""
        size = self.output.in_features
        (heads,) = self._split(F.linear(query, self.project.weight[:size], self.project.bias[:size]), 1)
        return self._join(self.attention(heads, memory))

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """`[B, L, parts * H * dk]` to `parts` tensors `[B, H, L, dk]`."""
        batch, length, _ = x.shape
        return x.view(batch, length, parts, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()

    def _join(self, heads: Tensor) -> Tensor:
        """`[B, H, L, dv]` to `[B, L, d]`, through W^O."""
        output: Tensor = self.output(heads.transpose(1, 2).flatten(-2))
        return output


def _for_heads(mask: Tensor | None) -> Tensor | None:
    """A mask of examples as one of all their heads."""
    return mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
