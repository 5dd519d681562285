"""Token embeddings on the same scale as the positions."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.special_symbols import PAD


class ScaledEmbedding(nn.Embedding):
    """Token embedding times sqrt(d_model) (1706.03762, section 3.4).

    The table is initialised with standard deviation d^-1/2, so that scaled entries have variance 1, the scale
    of the sinusoids that are added. With the usual N(0, 1), scaled embeddings would dominate the positions.
    Without scaling, the table itself is initialised with variance 1.
    """

    def __init__(self, vocabulary: int, size: int, scaled: bool) -> None:
        super().__init__(vocabulary, size, padding_idx=PAD)
        self.factor = math.sqrt(size) if scaled else 1.0
        nn.init.normal_(self.weight, std=1 / self.factor)
        with torch.no_grad():
            self.weight[PAD].zero_()

    def forward(self, input: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape d"]:  # noqa: A002  torch's name
        """The scaled rows of the tokens."""
        return super().forward(input) * self.factor

    def logits(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape V"]:
        """Products of vectors with the rows of the table: tied input and output embeddings (1608.05859).

        Entries of the table have variance 1/d with scaling and 1 without. In the latter case the products are
        divided by sqrt(d), so that initial logits have a variance of about 1 in both cases.
        """
        return F.linear(x, self.weight) * (self.factor / math.sqrt(x.shape[-1]))


def symbol_logits(
    x: Float[Tensor, "*shape d"], output: nn.Linear | None, embedding: ScaledEmbedding
) -> Float[Tensor, "*shape V"]:
    """Logits from an output layer, or from the embedding if the two are tied and there is no such layer."""
    if output is None:
        return embedding.logits(x)
    logits: Tensor = output(x)
    return logits
