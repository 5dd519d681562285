"""Classifiers of sequences: one structure around a self-attention, convolutional or recurrent encoder."""

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_lab.attention import Mechanism, lengths_mask
from attention_lab.constructor_options import common_options, options_of
from attention_lab.models.parts.convolution import ConvolutionalEncoder
from attention_lab.models.parts.embedding import ScaledEmbedding
from attention_lab.models.parts.encoder import Encoder
from attention_lab.models.parts.readouts import ClassToken, Readout, make_readout
from attention_lab.models.parts.recurrent_encoder import BidirectionalEncoder
from attention_lab.models.specs import ConvolutionalSpec, EncoderSpec, MultiHeadSpec, RecurrentClassifierSpec
from attention_lab.sizes import ClassificationSizes


class SequenceClassifier(nn.Module):
    """Embedding, encoder, readout, then a linear layer to the classes.

    Args:
        sizes: number of classes, and the tokens or vectors to read.
        d_model: size of the representations.
        encoder: maps `[B, L, d_model]` and lengths `[B]` to `[B, L, d_model]`.
        readout: maps the encoder's output to `[B, d_model]`.
        scale_embedding: multiply token embeddings by sqrt(d_model).
    """

    def __init__(
        self,
        sizes: ClassificationSizes,
        *,
        d_model: int,
        encoder: nn.Module,
        readout: Readout,
        scale_embedding: bool = True,
    ) -> None:
        super().__init__()
        self.embedding: nn.Module
        if sizes.vocabulary is not None:
            self.embedding = ScaledEmbedding(sizes.vocabulary, d_model, scale_embedding)
        else:
            assert sizes.features is not None
            self.embedding = nn.Linear(sizes.features, d_model)
        self.encoder = encoder
        self.readout = readout
        self.classify = nn.Linear(d_model, sizes.classes)

    def forward(
        self, inputs: Shaped[Tensor, "B L *d"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B *A C"]:
        """Logits of the classes for token ids `[B, L]` or vectors `[B, L, d]`, for each of A answers."""
        if inputs.is_floating_point():  # NaN in the padding would reach the gradients of the embedding
            inputs = inputs.masked_fill(~lengths_mask(lengths, inputs.shape[1]).mT, 0.0)
        x, lengths = self.readout.extend(self.embedding(inputs), lengths)
        logits: Tensor = self.classify(self.readout(self.encoder(x, lengths), lengths))
        return logits

    def position_labels(self, tokens: list[str]) -> list[str]:
        """The labels of the positions that the encoder sees, including CLS."""
        return self.readout.labels(tokens)


class MultiHeadClassifier(SequenceClassifier):
    """Classifier with a self-attention encoder; without layers, a query-free baseline.

    Args:
        mechanism: the attention in every head.
        sizes: number of classes, and the tokens or vectors to read.
        options: see `MultiHeadSpec`.
    """

    @options_of(MultiHeadSpec)
    def __init__(self, mechanism: Mechanism, sizes: ClassificationSizes, spec: MultiHeadSpec) -> None:
        reader = (
            ClassToken(spec.d_model, at_end=spec.causal)
            if spec.readout == "cls" and sizes.answers == 1
            else make_readout(mechanism, sizes, spec)
        )
        encoder = Encoder(
            mechanism,
            **common_options(spec, EncoderSpec),
            length=sizes.length + 1,
            prefix=reader.prefix,
            grid=sizes.grid,
        )
        super().__init__(
            sizes,
            d_model=spec.d_model,
            encoder=encoder,
            readout=reader,
            scale_embedding=spec.scale_embedding,
        )


class ConvolutionalClassifier(SequenceClassifier):
    """Classifier with a convolutional encoder; only the readout may use attention.

    Args:
        mechanism: the attention used by readout=attention.
        sizes: number of classes, and the tokens or vectors to read.
        options: see `ConvolutionalSpec`.
    """

    @options_of(ConvolutionalSpec)
    def __init__(self, mechanism: Mechanism, sizes: ClassificationSizes, spec: ConvolutionalSpec) -> None:
        super().__init__(
            sizes,
            d_model=spec.d_model,
            encoder=ConvolutionalEncoder(
                d_model=spec.d_model,
                layers=spec.layers,
                kernel_size=spec.kernel_size,
                dropout=spec.dropout,
            ),
            readout=make_readout(mechanism, sizes, spec),
        )


class RecurrentClassifier(SequenceClassifier):
    """Classifier with a bidirectional recurrent encoder; only the readout may use attention.

    Args:
        mechanism: the attention used by readout=attention.
        sizes: number of classes, and the tokens or vectors to read.
        options: see `RecurrentClassifierSpec`.
    """

    @options_of(RecurrentClassifierSpec)
    def __init__(
        self, mechanism: Mechanism, sizes: ClassificationSizes, spec: RecurrentClassifierSpec
    ) -> None:
        super().__init__(
            sizes,
            d_model=spec.d_model,
            encoder=BidirectionalEncoder(
                d_model=spec.d_model, layers=spec.layers, cell=spec.cell, dropout=spec.dropout
            ),
            readout=make_readout(mechanism, sizes, spec),
        )
