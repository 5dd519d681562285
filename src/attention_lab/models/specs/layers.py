"""The options of models with layers of multi-head self-attention."""

from collections.abc import Sequence
from dataclasses import dataclass

from attention_lab.argument_checks import check_counts, check_heads
from attention_lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """Layers of multi-head self-attention and feed-forward networks.

    Attributes:
        d_model: size of the representations.
        heads: number of heads in each layer.
        key_value_heads: number of key-value heads, a divisor of `heads`; None for as many. See `MultiHead`.
        layers: number of layers.
        feedforward: hidden size of the feed-forward networks.
        dropout: dropout probability on the embeddings, on the output of each sublayer and inside the
            feed-forward networks.
        attention_dropout: dropout probability on the attention weights.
        norm: `pre`, a layer norm before each sublayer f, `x + f(LN(x))` (2002.04745), or `post`, one after
            its residual connection, `LN(x + f(x))` (1706.03762, section 3.1).

    Raises:
        LabError: a size is below 1, `layers` is below 0, `d_model` is not a multiple of `heads`, `heads` is
            not a multiple of `key_value_heads`, or the norm is unknown.
    """

    d_model: int
    heads: int
    layers: int
    feedforward: int
    dropout: float = 0.1
    attention_dropout: float = 0.0
    key_value_heads: int | None = None
    norm: str = "pre"

    def __post_init__(self) -> None:
        sizes = {"d_model": self.d_model, "heads": self.heads, "key_value_heads": self.key_value_heads}
        check_heads(**{f"model.{name}": number for name, number in sizes.items()})
        check_counts("model", 1, feedforward=self.feedforward)
        check_counts("model", 0, layers=self.layers)
        if self.norm not in ("pre", "post"):
            raise LabError(f"model.norm={self.norm} is unknown: choose pre or post")


@dataclass(frozen=True, kw_only=True)
class GraphSpec(LayerSpec):
    """The options of a `GraphClassifier`.

    Attributes:
        layers: number of layers, which is how many edges away a node sees.
        attention_dropout: dropout probability on the attention weights; a node then sees a random subset of
            its neighbours.
        self_loops: let every node attend to itself.
    """

    dropout: float = 0.5
    attention_dropout: float = 0.5
    self_loops: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts("model", 1, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class SequenceSpec(LayerSpec):
    """Layers over a sequence.

    Attributes:
        positions: sinusoidal, learned, rotary, alibi, quadratic, t5 or none; see `attention.positions`.
        checkpointing: in training, store only the input of each layer and recompute the rest in the backward
            pass (1604.06174).
    """

    positions: str = "none"
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(SequenceSpec):
    """The options of an `Encoder`.

    Attributes:
        layers: number of layers; 0 leaves only the positions and, if `norm=pre`, the final norm.
        causal: let a position attend only to itself and earlier ones.
        length: expected number of positions; the maximum for learned positions.
        prefix: number of leading positions that are not part of the sequence, such as a CLS token.
        grid: rows and columns if the sequence is an image read line by line.
    """

    causal: bool = False
    length: int = 1024
    prefix: int = 0
    grid: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class DecoderSpec(SequenceSpec):
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
        check_counts("model", 1, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class LanguageSpec(DecoderSpec):
    """The options of a `LanguageModel`."""

    positions: str = "sinusoidal"


@dataclass(frozen=True, kw_only=True)
class TransformerSpec(DecoderSpec):
    """The options of a `Transformer`.

    Attributes:
        layers: number of layers of the encoder.
        decoder_layers: number of layers of the decoder; None for as many as the encoder has.
        positions: for both encoder and decoder; see `SequenceSpec`. Attention from target to source uses no
            positions.
        ctc_frames: frames per annotation of a `CTCHead`, which learns to predict the target from the encoder;
            0 for none.
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
            check_counts("model", 1, decoder_layers=self.decoder_layers)
