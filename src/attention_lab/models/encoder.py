"""Multi-head self-attention encoder (1706.03762) and a classifier on top of it."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attention_lab.attention import Mechanism, MultiHead, causal_mask, lengths_mask
from attention_lab.attention.positions import make_positions
from attention_lab.errors import LabError
from attention_lab.sizes import PAD, ClassificationSizes


class ScaledEmbedding(nn.Embedding):
    """Token embedding times sqrt(d_model) (1706.03762, section 3.4).

    The table starts with standard deviation d^-1/2, so that scaled entries have variance 1, the size
    of the sinusoids that are added. With the usual N(0, 1) the factor would drown the positions.
    Without scaling the table starts at variance 1 itself.
    """

    def __init__(self, vocabulary: int, size: int, scaled: bool = True) -> None:
        super().__init__(vocabulary, size, padding_idx=PAD)
        self.factor = math.sqrt(size) if scaled else 1.0
        nn.init.normal_(self.weight, std=1 / self.factor)
        with torch.no_grad():
            self.weight[PAD].zero_()

    def forward(self, input: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape d"]:  # noqa: A002  torch's name
        """The scaled rows of the tokens."""
        return super().forward(input) * self.factor


class EncoderLayer(nn.Module):
    """One pre-norm layer: `x + MHA(LN(x))`, then `x + FFN(LN(x))` (1706.03762, section 3.1; 2002.04745)."""

    def __init__(
        self,
        mechanism: Mechanism,
        size: int,
        heads: int,
        feedforward: int,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size)
        self.attention = MultiHead(mechanism, size, heads, attention_dropout)
        self.feedforward_norm = nn.LayerNorm(size)
        self.expand = nn.Linear(size, feedforward)
        self.contract = nn.Linear(feedforward, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L d"], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, "B L d"]:
        """The layer's output under a mask `[B, 1, L]` or `[B, L, L]`."""
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        hidden = self.dropout(F.relu(self.expand(self.feedforward_norm(x))))
        output: Tensor = x + self.dropout(self.contract(hidden))
        return output


class Encoder(nn.Module):
    """A stack of pre-norm self-attention layers with a final norm.

    Args:
        mechanism: the attention in every head.
        d_model: size of the representations.
        heads: heads in each layer.
        layers: number of layers.
        feedforward: hidden size of the feed-forward network.
        dropout: on the output of each sublayer and in the feed-forward network.
        attention_dropout: on the attention weights.
        causal: let a position attend to itself and earlier ones only.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        d_model: int,
        heads: int,
        layers: int,
        feedforward: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.layers = nn.ModuleList(
            EncoderLayer(mechanism, d_model, heads, feedforward, dropout, attention_dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Float[Tensor, "B L d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L d"]:
        """Representations of all positions; what lies beyond a length influences nothing before it."""
        mask = lengths_mask(lengths, x.shape[1])
        if self.causal:
            mask = mask & causal_mask(x.shape[1], device=x.device)
        for layer in self.layers:
            x = layer(x, mask)
        output: Tensor = self.norm(x)
        return output


class SequenceClassifier(nn.Module):
    """Self-attention encoder, then mean pooling or a CLS token, then a linear layer to the classes.

    Args:
        mechanism: the attention in every head.
        sizes: classes, and tokens or vectors to read.
        d_model: size of the representations.
        heads: heads in each layer.
        layers: number of layers.
        feedforward: hidden size of the feed-forward networks.
        dropout: on the embeddings and the output of each sublayer.
        attention_dropout: on the attention weights.
        causal: let a position attend to itself and earlier ones only.
        positions: sinusoidal, learned or none.
        scale_embedding: multiply token embeddings by sqrt(d_model).
        readout: `mean` over the positions of a sequence, or `cls`, a learned vector put before it
            (1810.04805); under a causal mask it stands at the end, where it can see them all.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sizes: ClassificationSizes,
        *,
        d_model: int,
        heads: int,
        layers: int,
        feedforward: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        causal: bool = False,
        positions: str = "sinusoidal",
        scale_embedding: bool = True,
        readout: str = "mean",
    ) -> None:
        super().__init__()
        for name, number in (
            ("d_model", d_model),
            ("heads", heads),
            ("layers", layers),
            ("feedforward", feedforward),
        ):
            if number < 1:
                raise LabError(f"model.{name} must be at least 1, got {number}")
        if readout not in ("mean", "cls"):
            raise LabError(f"model.readout={readout} is unknown: choose mean or cls")
        self.embedding: nn.Module
        if sizes.vocabulary is not None:
            self.embedding = ScaledEmbedding(sizes.vocabulary, d_model, scale_embedding)
        else:
            assert sizes.features is not None
            self.embedding = nn.Linear(sizes.features, d_model)
        self.cls = nn.Parameter(torch.randn(d_model)) if readout == "cls" else None
        self.positions = make_positions(positions, d_model, sizes.length + 1)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(
            mechanism,
            d_model=d_model,
            heads=heads,
            layers=layers,
            feedforward=feedforward,
            dropout=dropout,
            attention_dropout=attention_dropout,
            causal=causal,
        )
        self.classify = nn.Linear(d_model, sizes.classes)

    def forward(self, inputs: Shaped[Tensor, "B L *d"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B C"]:
        """Logits of the classes for token ids `[B, L]` or vectors `[B, L, d]`."""
        x = self.embedding(inputs)
        if self.cls is not None:
            x, lengths = self._with_cls(x, lengths)
        x = self.encoder(self.dropout(self.positions(x)), lengths)
        logits: Tensor = self.classify(self._read(x, lengths))
        return logits

    def position_labels(self, tokens: list[str]) -> list[str]:
        """The labels of the positions that the encoder sees, CLS among them."""
        if self.cls is None:
            return tokens
        return [*tokens, "[CLS]"] if self.encoder.causal else ["[CLS]", *tokens]

    def _with_cls(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The sequence with CLS before it, or after its last position under a causal mask."""
        assert self.cls is not None
        if not self.encoder.causal:
            return torch.cat([self.cls.expand(len(x), 1, -1), x], 1), lengths + 1
        x = F.pad(x, (0, 0, 0, 1))
        at_end = torch.arange(x.shape[1], device=x.device) == lengths.unsqueeze(-1)
        return torch.where(at_end.unsqueeze(-1), self.cls, x), lengths + 1

    def _read(self, x: Tensor, lengths: Tensor) -> Tensor:
        """One vector for each sequence."""
        if self.cls is not None:
            return x[torch.arange(len(x), device=x.device), lengths - 1] if self.encoder.causal else x[:, 0]
        visible = lengths_mask(lengths, x.shape[1]).mT.to(x.dtype)
        return (x * visible).sum(1) / visible.sum(1).clamp_min(1)
