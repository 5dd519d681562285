"""The options of the models: declared, documented and given their defaults in one place.

A model takes the fields of its spec as options, for example `Transformer(mechanism, sizes, heads=8)`; see
`options_of`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attention_lab.constructor_options import find_spec
from attention_lab.errors import LabError
from attention_lab.models.options import check_at_least


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """Layers of multi-head self-attention and feed-forward networks.

    Attributes:
        d_model: size of the representations.
        heads: number of heads in each layer.
        layers: number of layers.
        feedforward: hidden size of the feed-forward networks.
        dropout: on the embeddings, the output of each sublayer and in the feed-forward networks.
        attention_dropout: on the attention weights.

    Raises:
        LabError: a size is below 1, or `layers` is below 0.
    """

    d_model: int
    heads: int
    layers: int
    feedforward: int
    dropout: float = 0.1
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_at_least(1, d_model=self.d_model, heads=self.heads, feedforward=self.feedforward)
        check_at_least(0, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class GraphSpec(LayerSpec):
    """The options of a `GraphClassifier`.

    Attributes:
        layers: number of layers, which is how many edges away a node sees.
        attention_dropout: on the attention weights, so that a node sees a random subset of its neighbours.
        self_loops: let every node attend to itself.
    """

    dropout: float = 0.5
    attention_dropout: float = 0.5
    self_loops: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class SequenceSpec(LayerSpec):
    """Layers over a sequence.

    Attributes:
        positions: sinusoidal, learned, rotary, alibi, quadratic or none; see `attention.positions`.
        checkpointing: in training, store only the input of each layer and recompute the rest in the backward
            pass (1604.06174).
    """

    positions: str = "none"
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(SequenceSpec):
    """The options of an `Encoder`.

    Attributes:
        layers: number of layers; 0 leaves only the positions and the norm.
        causal: let a position attend only to itself and earlier ones.
        length: expected number of positions; the maximum for learned positions.
        prefix: number of leading positions that are not part of the sequence, such as a CLS token.
        grid: rows and columns if the sequence is a picture read line by line.
    """

    causal: bool = False
    length: int = 1024
    prefix: int = 0
    grid: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class MultiHeadSpec(SequenceSpec):
    """The options of a `MultiHeadClassifier`.

    Attributes:
        layers: number of layers; 0 pools the embedded positions themselves.
        causal: let a position attend only to itself and earlier ones.
        scale_embedding: multiply token embeddings by sqrt(d_model).
        readout: `mean` or `max` over the positions; the `last` one (or the last few, if the data has a label
            for each); `linear`, a learned weight for each position; `attention`, in which a learned query
            attends to them; or `cls`, a learned vector before the sequence (1810.04805), or after it under a
            causal mask.
    """

    dropout: float = 0.2
    causal: bool = False
    positions: str = "sinusoidal"
    scale_embedding: bool = True
    readout: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.readout == "cls" and self.layers == 0:
            raise LabError("model.readout=cls sees the sequence through the layers: set model.layers above 0")


@dataclass(frozen=True, kw_only=True)
class WriterSpec(SequenceSpec):
    """Layers that read symbols and return logits of symbols.

    Attributes:
        scale_embedding: multiply embeddings by sqrt(d_model).
        tie_embedding: compute the logits as products with the embedding table (1608.05859; 1706.03762,
            section 3.4).
    """

    scale_embedding: bool = True
    tie_embedding: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class LanguageSpec(WriterSpec):
    """The options of a `LanguageModel`."""

    positions: str = "sinusoidal"


@dataclass(frozen=True, kw_only=True)
class TransformerSpec(WriterSpec):
    """The options of a `Transformer`.

    Attributes:
        layers: number of layers of the encoder.
        decoder_layers: number of layers of the decoder; None for as many as the encoder has.
        positions: for both encoder and decoder; see `SequenceSpec`. Attention from target to source uses no
            positions.
        ctc_frames: frames per annotation of a `Tagger`, which learns to write the target from the encoder; 0
            for no tagger.
    """

    d_model: int = 128
    heads: int = 4
    layers: int = 2
    decoder_layers: int | None = None
    feedforward: int = 512
    positions: str = "rotary"
    ctc_frames: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoder_layers is not None:
            check_at_least(1, decoder_layers=self.decoder_layers)


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """Recurrent layers with attention that write symbols.

    Attributes:
        embedding_size: size of the symbol embeddings, in encoder and decoder.
        hidden_size: size of annotations and decoder states.
        layers: number of layers in encoder and decoder.
        cell: `lstm` or `gru`.
        wiring: `bahdanau`, attend before the recurrent step, or `luong`, after it; see `AttentiveDecoder`.
        input_feeding: feed the attentional vector to the next step.
        dropout: on embeddings or features, between layers and before the logits.
        attention_dropout: on the attention weights.

    Raises:
        LabError: the cell or wiring is unknown, or a size is below 1.
    """

    embedding_size: int
    hidden_size: int
    layers: int = 1
    cell: str = "lstm"
    wiring: str = "luong"
    input_feeding: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.cell not in ("lstm", "gru"):
            raise LabError(f"model.cell={self.cell} is unknown: choose lstm or gru")
        if self.wiring not in ("bahdanau", "luong"):
            raise LabError(f"model.wiring={self.wiring} is unknown: choose bahdanau or luong")
        check_at_least(
            1, embedding_size=self.embedding_size, hidden_size=self.hidden_size, layers=self.layers
        )


@dataclass(frozen=True, kw_only=True)
class Seq2SeqSpec(RecurrentSpec):
    """The options of a `Seq2Seq`.

    Attributes:
        hidden_size: even if the encoder is bidirectional, because each direction gets half.
        residual: add each source symbol's own embedding to its value; see `RecurrentEncoder`.
        bidirectional: whether the encoder reads in both directions, or only from left to right.
        memory: `annotations` of all symbols, or only the encoder's `final` state, which means no attention;
            see `RecurrentEncoder`.
        ctc_frames: frames per annotation of a `Tagger`, which learns to write the target from the encoder; 0
            for no tagger.
        copy: mix the symbols that attention points at into the output; see `Copying`.
        tag_input: add the embeddings of the source's tags to those of the symbols that the decoder reads, so
            that each query depends on the tags.
    """

    embedding_size: int = 128
    hidden_size: int = 256
    dropout: float = 0.2
    residual: bool = True
    bidirectional: bool = True
    memory: str = "annotations"
    ctc_frames: int = 0
    copy: bool = False
    tag_input: bool = False


@dataclass(frozen=True, kw_only=True)
class ImageToSequenceSpec(RecurrentSpec):
    """The options of an `ImageToSequence`.

    Attributes:
        channels: channels of the first convolution; see `GridEncoder`.
        embedding_size: size of the embeddings of the target symbols.
        layers: number of layers of the decoder.
    """

    channels: int = 16
    embedding_size: int = 32
    hidden_size: int = 128
    wiring: str = "bahdanau"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, channels=self.channels)
        check_at_least(2, hidden_size=self.hidden_size)


SPECS: Mapping[str, type[Any]] = {
    "GraphClassifier": GraphSpec,
    "ImageToSequence": ImageToSequenceSpec,
    "LanguageModel": LanguageSpec,
    "MultiHeadClassifier": MultiHeadSpec,
    "Seq2Seq": Seq2SeqSpec,
    "Transformer": TransformerSpec,
}
"""The spec of each model that has one."""


def check_model(part: Mapping[str, Any]) -> None:
    """Reject wrong options of a model of this package.

    Args:
        part: the options, with the model as `_target_`.

    Raises:
        LabError: an option is wrong; the message names it.
    """
    find_spec(SPECS, "attention_lab.models", part)
