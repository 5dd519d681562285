"""Readouts: reduce the representations of a sequence to a single vector."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.attention import Mechanism, lengths_mask
from attention_lab.attention.windows import Global
from attention_lab.errors import LabError
from attention_lab.models.specs import MultiHeadSpec, ReadoutSpec
from attention_lab.sizes import ClassificationSizes


class Readout(nn.Module):
    """Reduces `[B, L, d]` to `[B, d]`, or to `[B, A, d]` if the data has A answers.

    `extend` may add positions to the encoder's input.
    """

    prefix = 0
    """Number of positions that `extend` puts before the sequence."""

    def extend(
        self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B M d"], Int[Tensor, " B"]]:
        """The encoder's input and its lengths, possibly with added positions."""
        return x, lengths

    def labels(self, tokens: list[str]) -> list[str]:
        """The labels of the positions that the encoder sees."""
        return tokens


class Mean(Readout):
    """Average pooling: attention with a constant kernel."""

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """`1/L sum_i x_i`; zero for an empty sequence."""
        visible = lengths_mask(lengths, x.shape[1]).mT
        return x.masked_fill(~visible, 0.0).sum(1) / lengths.clamp_min(1).unsqueeze(-1)


class Max(Readout):
    """Max pooling: the largest value of each feature over the positions."""

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """`max_i x_i`; zero for an empty sequence."""
        visible = lengths_mask(lengths, x.shape[1]).mT
        largest = x.masked_fill(~visible, -torch.inf).amax(1)
        return largest.masked_fill(lengths.unsqueeze(-1) == 0, 0.0)


class FullyConnected(Readout):
    """A fully connected layer over the positions, shared by all features: it has parameters but no query.

    It starts as the mean over a sequence of full length.

    Args:
        length: the largest possible number of positions.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full([length], 1 / length))

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """`sum_i w_i x_i`; zero for an empty sequence.

        Raises:
            LabError: there are more positions than weights.
        """
        count, most = x.shape[1], len(self.weight)
        if count > most:
            raise LabError(
                f"model.readout=linear has weights for {most} positions, but a sequence has {count}"
            )
        visible = lengths_mask(lengths, count).mT
        return self.weight[:count] @ x.masked_fill(~visible, 0.0)


class ClassToken(Readout):
    """A learned vector CLS among the encoder's positions, whose representation is read out (1810.04805).

    Args:
        size: size of the representations.
        at_end: put it after the last position instead of before the first; under a causal mask this is the
            only place from which it sees all positions.
    """

    def __init__(self, size: int, *, at_end: bool) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(size))
        self.at_end = at_end
        self.prefix = 0 if at_end else 1

    def extend(
        self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B M d"], Int[Tensor, " B"]]:
        """The sequence with CLS added, one position longer."""
        if not self.at_end:
            return torch.cat([self.token.expand(x.shape[0], 1, -1), x], 1), lengths + 1
        x = F.pad(x, (0, 0, 0, 1))
        at_end = torch.arange(x.shape[1], device=x.device) == lengths.unsqueeze(-1)
        return torch.where(at_end.unsqueeze(-1), self.token, x), lengths + 1

    def labels(self, tokens: list[str]) -> list[str]:
        """The labels, including CLS."""
        return [*tokens, "[CLS]"] if self.at_end else ["[CLS]", *tokens]

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """The representation of CLS."""
        return x[torch.arange(x.shape[0], device=x.device), lengths - 1] if self.at_end else x[:, 0]


class Attentive(Readout):
    """Attention pooling: a learned query attends to the positions.

    With the additive score this is 1703.03130, eq. 5, where the query amounts to a bias. The query has no
    position in the sequence, so every part of the mechanism applies except the window.

    Args:
        mechanism: the attention.
        size: size of the representations and the query.
        dropout: dropout probability on the attention weights.
    """

    def __init__(self, mechanism: Mechanism, size: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, size))
        self.attention = replace(mechanism, window=Global)(size, size, dropout=dropout)

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """The context of the query; zero for an empty sequence."""
        memory = self.attention.remember(x, mask=lengths_mask(lengths, x.shape[1]))
        context: Tensor = self.attention(self.query.expand(x.shape[0], 1, -1), memory)
        return context.squeeze(1)


class Last(Readout):
    """The last position of a sequence, or the last few: these are the questions, all before them is context.

    Args:
        answers: number of positions to read.
    """

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.answers = answers

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B *A d"]:
        """`x_L`, or `[x_{L-A+1}, ..., x_L]` if A is above 1; zero before the start of a sequence."""
        positions = lengths.unsqueeze(-1) - self.answers + torch.arange(self.answers, device=x.device)
        rows = torch.arange(x.shape[0], device=x.device).unsqueeze(-1)
        read = x[rows, positions.clamp_min(0)].masked_fill(positions.unsqueeze(-1) < 0, 0.0)
        return read.squeeze(1) if self.answers == 1 else read


def make_readout(
    mechanism: Mechanism, sizes: ClassificationSizes, spec: MultiHeadSpec | ReadoutSpec
) -> Readout:
    """The readout of a classifier, one of those for any encoder: mean, max, last, linear or attention.

    Raises:
        LabError: the name is unknown, or the readout gives one answer but the data has several.
    """
    name = spec.readout
    if sizes.answers > 1 and name != "last":
        raise LabError(
            f"model.readout={name} gives one answer, but the data asks for {sizes.answers} per sequence: "
            "choose model.readout=last"
        )
    match name:
        case "mean":
            return Mean()
        case "max":
            return Max()
        case "last":
            return Last(sizes.answers)
        case "linear":
            return FullyConnected(sizes.length)
        case "attention":
            return Attentive(mechanism, spec.d_model, spec.attention_dropout)
        case "cls":
            raise LabError(
                "model.readout=cls needs model=multihead: choose mean, max, last, linear or attention"
            )
    raise LabError(
        f"model.readout={name} is unknown: choose mean, max, last, linear, attention or, with multihead, cls"
    )
