"""Connectionist temporal classification (CTC): a second output distribution, from the encoder alone."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.argument_checks import check_counts
from attention_lab.attention import Dropout
from attention_lab.special_symbols import EOS, PAD


class CTCHead(nn.Module):
    """A CTC head: predicts the target from left to right from the annotations alone (Graves et al. 2006).

    Each annotation gives a few frames; each frame is a symbol or a blank, independently of the others:

        p(y | x) = sum_{s in B^-1(y)} prod_f p(s_f | x)

    over all sequences s that become y when repetitions are merged and blanks removed. Trained
    together with the decoder's likelihood (1609.06773, eq. 8), it teaches each annotation what to predict at
    its position. It can also rescore the outputs of a beam search: see `decoding.rescoring`.

    Args:
        size: size of the annotations.
        vocabulary: number of target symbols; the padding id serves as the blank.
        frames: frames per annotation, at least the largest number of target symbols that one source symbol
            may stand for.
        dropout: dropout probability on the annotations.

    Raises:
        LabError: `frames` is below 1.
    """

    def __init__(self, size: int, vocabulary: int, frames: int, dropout: float) -> None:
        super().__init__()
        check_counts("model", 1, ctc_frames=frames)
        self.frames = frames
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(size, frames * vocabulary)

    def forward(self, annotations: Float[Tensor, "B S h"]) -> Float[Tensor, "B F V"]:
        """Logits of all frames, F = S times `frames`."""
        batch, length, _ = annotations.shape
        logits: Tensor = self.output(self.dropout(annotations))
        return logits.view(batch, length * self.frames, -1)

    def loss(
        self,
        annotations: Float[Tensor, "B S h"],
        mask: Bool[Tensor, "B 1 S"],
        target: Int[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """`-log p(y | x)` per symbol of each target, averaged over the batch.

        A target that needs more frames than its source has is ignored.

        Args:
            annotations: from the encoder.
            mask: False for padding.
            target: gold symbols, padded; they end in EOS, which the head does not predict.
        """
        frames, lengths = self._frames(annotations, mask)
        target_lengths = (target != PAD).sum(-1) - 1
        return F.ctc_loss(frames, target, lengths, target_lengths, blank=PAD, zero_infinity=True)

    def log_likelihood(
        self,
        annotations: Float[Tensor, "B S h"],
        mask: Bool[Tensor, "B 1 S"],
        outputs: Int[Tensor, "B n T"],
    ) -> Float[Tensor, "B n"]:
        """`log p(y | x)` of n outputs for each source; -inf if one needs more frames than its source has.

        Args:
            annotations: from the encoder.
            mask: False for padding.
            outputs: symbols up to EOS, which the head does not predict, padded.
        """
        frames, lengths = self._frames(annotations, mask)
        symbols = outputs.masked_fill(outputs == EOS, PAD)
        # One at a time: together, they would need n copies of the frames.
        each = [
            F.ctc_loss(frames, one, lengths, (one != PAD).sum(-1), blank=PAD, reduction="none")
            for one in symbols.unbind(1)
        ]
        return -torch.stack(each, 1)

    def _frames(self, annotations: Tensor, mask: Tensor) -> tuple[Float[Tensor, "F B V"], Int[Tensor, " B"]]:
        """The log-probabilities of all frames, and the number of frames of each source."""
        logits = self(annotations)
        working = torch.promote_types(logits.dtype, torch.float32)
        return logits.log_softmax(-1, dtype=working).transpose(0, 1), mask.sum((1, 2)) * self.frames
