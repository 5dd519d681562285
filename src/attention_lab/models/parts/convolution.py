"""Residual convolutions over sequences: an encoder that sees only neighbours."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, lengths_mask
from attention_lab.errors import LabError


class ConvolutionLayer(nn.Module):
    """`x + conv(relu(LN(x)))`, a residual layer with pre-activation (1603.05027).

    Args:
        size: channels.
        kernel_size: positions that the kernel spans; odd, so that it is centred on each position.
        dropout: dropout probability on the output of the convolution.
    """

    def __init__(self, size: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.convolution = nn.Conv1d(size, size, kernel_size, padding=kernel_size // 2)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L d"], hidden: Tensor) -> Float[Tensor, "B L d"]:
        """The layer's output; the positions `hidden` `[B, L, 1]` are treated as zero padding."""
        active = F.relu(self.norm(x)).masked_fill(hidden, 0.0)
        output: Tensor = x + self.dropout(self.convolution(active.mT).mT)
        return output


class ConvolutionalEncoder(nn.Module):
    """Residual convolutions and a final norm; n layers of kernel size k see `1 + n (k - 1)` positions.

    Args:
        d_model: size of the representations.
        layers: number of layers.
        kernel_size: positions that each kernel spans; odd.
        dropout: dropout probability on the input and the output of each layer.

    Raises:
        LabError: the kernel size is even.
    """

    def __init__(self, *, d_model: int, layers: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise LabError(
                f"model.kernel_size must be odd, so that the kernel is symmetric, got {kernel_size}: "
                f"choose {kernel_size + 1}"
            )
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(ConvolutionLayer(d_model, kernel_size, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L d"]:
        """Representations of all positions; padding beyond a length does not affect earlier positions."""
        hidden = ~lengths_mask(lengths, x.shape[1]).mT
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, hidden)
        output: Tensor = self.norm(x)
        return output
