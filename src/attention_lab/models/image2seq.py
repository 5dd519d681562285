"""From an image to a sequence: a decoder that attends to a grid of features (1502.03044)."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Dropout, Mechanism, lengths_mask
from attention_lab.attention.positions import sinusoids
from attention_lab.constructor_options import options_of
from attention_lab.models.parts.encoded import Encoded
from attention_lab.models.parts.recurrent_decoder import AttentiveDecoder
from attention_lab.models.seq2seq import EncoderDecoder
from attention_lab.models.specs import ImageToSequenceSpec
from attention_lab.sizes import ImageSizes


class PictureNorm(nn.Module):
    """Batch normalisation (1502.03167) of images of different widths, ignoring the padding.

    Args:
        channels: number of channels.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.normalize = nn.BatchNorm1d(channels)

    def forward(self, x: Float[Tensor, "B c H W"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B c H W"]:
        """Images of widths `lengths`, normalised; zero beyond their widths."""
        # Computed once, because it synchronises with the GPU.
        inside = lengths_mask(lengths, x.shape[-1]).flatten().nonzero().squeeze(1)
        all_columns = x.permute(0, 3, 1, 2).flatten(0, 1)
        columns = self.normalize(all_columns.index_select(0, inside))  # [n, c, H]
        padded = columns.new_zeros(all_columns.shape).index_copy(0, inside, columns)
        normalized: Tensor = padded.view(x.shape[0], x.shape[3], *x.shape[1:3]).permute(0, 2, 3, 1)
        return normalized


class GridEncoder(nn.Module):
    """Convolutions over an image, with one annotation for each cell of its grid (1502.03044, section 3.1.1).

        a_rc = LayerNorm(CNN(x)_rc) + [P_c; P_r]

    with P the sinusoids of 1706.03762, of the column in one half and of the row in the other. The decoder
    can thus distinguish identical cells and continue from its last position. The annotations are keys and
    values. The CNN is a stack of 3 x 3 convolutions, each with normalisation and ReLU, and all but the
    first with 2 x 2 max pooling, until a cell is one feature; a linear map comes last. So an annotation
    sees only its own cell and the eight around it, a square of three by three cells: to read a symbol, a
    model has to attend to its location. Padding to the right of an image is set to zero after each layer,
    so it has no effect.

    Cells are numbered down each column, from left to right. The decoder starts from the mean of the
    annotations (section 3.1.2).

    Args:
        cell: side of a cell in pixels, a power of two.
        channels: channels of the first convolution; doubled with each pooling.
        hidden_size: size h of the annotations.
        layers: number of layers of the decoder.
        dropout: dropout probability on the features before the linear map.
    """

    def __init__(self, cell: int, *, channels: int, hidden_size: int, layers: int, dropout: float) -> None:
        super().__init__()
        halvings = cell.bit_length() - 1
        widths = [1, *(channels * 2**stage for stage in range(halvings + 1))]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(below, above, 3, padding=1, bias=False) for below, above in pairwise(widths)
        )
        self.norms = nn.ModuleList(PictureNorm(width) for width in widths[1:])
        self.last = nn.Conv2d(widths[-1], hidden_size, 1)
        self.normalize = nn.LayerNorm(hidden_size)
        self.dropout = Dropout(dropout)
        self.layers = layers

    def forward(self, source: Float[Tensor, "B H W"], lengths: Int[Tensor, " B"]) -> Encoded:
        """Annotations of all cells.

        Args:
            source: amount of ink, from 0 to 1.
            lengths: width of each image in pixels; padding beyond it has no effect.
        """
        x = source.masked_fill(~lengths_mask(lengths, source.shape[-1]), 0.0).unsqueeze(1)
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = norm(convolution(x), lengths).relu()
            if number:  # the first one sees single pixels
                x = F.max_pool2d(x, 2, ceil_mode=True)
                lengths = (lengths + 1) // 2
        x = self.last(self.dropout(x)).permute(0, 3, 2, 1)  # [B, columns, rows, h]
        columns, rows, size = x.shape[1:]
        across, down = sinusoids(columns, size - size // 2), sinusoids(rows, size // 2)
        positions = torch.cat(
            [across.unsqueeze(1).expand(-1, rows, -1), down.unsqueeze(0).expand(columns, -1, -1)], -1
        )
        annotations = (self.normalize(x) + positions.to(x, non_blocking=True)).flatten(1, 2)
        cells = lengths * rows
        mask = lengths_mask(cells, columns * rows)
        total = annotations.masked_fill(~mask.mT, 0.0).sum(1)
        return Encoded(annotations, annotations, mask, [total / cells.unsqueeze(-1)] * self.layers)


class ImageToSequence(EncoderDecoder):
    """Show, attend and tell: generates the text of an image, attending to its cells (1502.03044).

    Args:
        mechanism: the attention of the decoder.
        sizes: height and cell of the images, and the vocabulary.
        options: see `ImageToSequenceSpec`.
    """

    @options_of(ImageToSequenceSpec)
    def __init__(self, mechanism: Mechanism, sizes: ImageSizes, spec: ImageToSequenceSpec) -> None:
        encoder = GridEncoder(
            sizes.cell,
            channels=spec.channels,
            hidden_size=spec.hidden_size,
            layers=spec.layers,
            dropout=spec.dropout,
        )
        super().__init__(encoder, AttentiveDecoder(mechanism, sizes.target_vocabulary, spec))
