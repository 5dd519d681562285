"""Multi-head attention: projections around one attention that runs all heads at once."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.attention import Mechanism, Memory
from attention_lab.attention.positions import Relative
from attention_lab.errors import LabError


class MultiHead(nn.Module):
    """`Concat(head_1, ..., head_H) W^O`, `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`.

    1706.03762, section 3.2.2, with any mechanism in the heads. A single head has W^Q, W^K, W^V too.

    Args:
        mechanism: makes the attention of the heads; a score with parameters has its own in each.
        size: d_model, that of the input and output.
        heads: H, a divisor of `size`; each head has d_k = d_v = size / H.
        dropout: of the attention weights.
        relative: positions that turn queries and keys or are added to the scores, made for these heads.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        size: int,
        heads: int,
        dropout: float = 0.0,
        relative: Relative | None = None,
    ) -> None:
        super().__init__()
        check_heads(size, heads)
        self.heads = heads
        self.project = nn.Linear(size, 3 * size)
        self.attention = mechanism(size // heads, size // heads, heads, dropout)
        self.output = nn.Linear(size, size)
        self.relative = relative
        # W^Q, W^K and W^V are three matrices that happen to lie in one: each has its own fan-out.
        for part in self.project.weight.chunk(3):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.project.bias)

    def forward(
        self, x: Float[Tensor, "B L d"], mask: Bool[Tensor, "..."] | None = None, *, causal: bool = False
    ) -> Float[Tensor, "B L d"]:
        """Self-attention of `x`.

        Args:
            x: the sequence.
            mask: `[B, 1, L]`, `[B, L, L]` or `[L, L]`, True = attend.
            causal: let a position attend to itself and earlier ones only.
        """
        query, key, value = self._split(self.project(x), 3)
        return self._attend(query, self._remember(key, value, mask, causal, 0), 0)

    def remember(
        self,
        source: Float[Tensor, "B K d"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        offset: int = 0,
    ) -> Memory:
        """The keys and values of a source whose first row stands at position `offset`, for `attend`."""
        size = self.output.in_features
        key, value = self._split(F.linear(source, self.project.weight[size:], self.project.bias[size:]), 2)
        return self._remember(key, value, mask, causal, offset)

    def attend(
        self, query: Float[Tensor, "B Q d"], memory: Memory, *, offset: int = 0
    ) -> Float[Tensor, "B Q d"]:
        """Attention of queries at `offset`, `offset + 1`, ... to a remembered source that begins at 0."""
        size = self.output.in_features
        (heads,) = self._split(F.linear(query, self.project.weight[:size], self.project.bias[:size]), 1)
        return self._attend(heads, memory, offset)

    def _remember(self, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, offset: int) -> Memory:
        if self.relative is not None:
            key = self.relative.rotate(key, offset)
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask  # one for all heads
        return self.attention.remember(key, value, mask, causal=causal)

    def _attend(self, query: Tensor, memory: Memory, offset: int) -> Tensor:
        bias = None
        if self.relative is not None:
            query = self.relative.rotate(query, offset)
            bias = self.relative.bias(query.shape[-2], memory.value.shape[-2], offset)
        return self._join(self.attention(query, memory, offset=offset, bias=bias))

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """`[B, L, parts * H * dk]` to `parts` tensors `[B, H, L, dk]`."""
        batch, length, _ = x.shape
        return x.view(batch, length, parts, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()

    def _join(self, heads: Tensor) -> Tensor:
        """`[B, H, L, dv]` to `[B, L, d]`, through W^O."""
        output: Tensor = self.output(heads.transpose(1, 2).flatten(-2))
        return output


def check_heads(size: int, heads: int) -> None:
    """Refuse a d_model that the heads cannot share equally."""
    if size % heads:
        raise LabError(f"model.d_model={size} must be a multiple of model.heads={heads}")
