"""Copying: mix the output distribution of a decoder with the symbols that its attention points at."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.models.parts.encoded import Encoded
from attention_lab.special_symbols import UNK

TINY = 1e-30
"""Stands for a probability of 0 in logarithms; their infinite slope would turn gradients into NaN."""


class Copying(nn.Module):
    """Generate a symbol or copy one from the source, as a mixture (pointer-generator network, 1704.04368).

        p(y) = (1 - (1 - g) sum_y' m(y')) softmax(l)(y) + (1 - g) m(y)
        m(y) = sum_s a_s [x_s = y],   g = sigmoid(w · r + b)

    with the attention weights a, the readout r and its logits l. Where every source symbol can be generated
    and the weights sum to one, this is 1704.04368, eq. 9. Weight on a symbol that cannot be generated, such
    as a tag or the end, goes to the softmax instead. An unknown source symbol is copied as unknown; the codec
    then replaces unknown symbols in the output by those of the source, in order.

    The pointer m is the context of one-hot values, so every score, normaliser, window and pooling has one:
    `extend` appends the one-hot vectors to the values, `split` takes the pointer from the context.

    Args:
        size: size of the readouts.
        vocabulary: V, number of target symbols.
        targets: for each source symbol, the identical target symbol, or 0 if there is none.
    """

    targets: Tensor

    def __init__(self, size: int, vocabulary: int, targets: Int[Tensor, " U"]) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.gate = nn.Linear(size, 1)
        targets = targets.clone()
        targets[UNK] = UNK
        self.register_buffer("targets", targets, persistent=False)

    def extend(self, encoded: Encoded, source: Int[Tensor, "B S"]) -> Encoded:
        """Append to each value the one-hot vector of its symbol, if that symbol can be generated."""
        symbols = self.targets[source]
        pointers = F.one_hot(symbols, self.vocabulary) * (symbols > 0).unsqueeze(-1)
        values = torch.cat([encoded.values, pointers.to(encoded.values.dtype)], -1)
        return encoded._replace(values=values)

    def split(self, context: Float[Tensor, "*N c"]) -> tuple[Float[Tensor, "*N h"], Float[Tensor, "*N V"]]:
        """The context itself, and the pointer; also splits the values made by `extend`."""
        size = context.shape[-1] - self.vocabulary
        return context[..., :size], context[..., size:]

    def forward(
        self,
        readouts: Float[Tensor, "*N h"],
        logits: Float[Tensor, "*N V"],
        pointers: Float[Tensor, "*#N V"],
    ) -> Float[Tensor, "*N V"]:
        """`log p(y)`; half precision is computed in float32."""
        working = torch.promote_types(logits.dtype, torch.float32)
        pointers = pointers.to(working)
        # Weights after dropout may sum to more than one.
        total = pointers.sum(-1, keepdim=True)
        pointers, total = pointers / total.clamp_min(1.0), total.clamp_max(1.0)
        copied = self.gate(readouts).to(working).neg().sigmoid()
        generated = (1 - copied * total).clamp_min(TINY).log() + logits.log_softmax(-1, dtype=working)
        return torch.logaddexp(generated, (copied * pointers).clamp_min(TINY).log())
