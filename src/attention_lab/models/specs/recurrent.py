"""The options of models with a recurrent decoder."""

from dataclasses import dataclass

from attention_lab.argument_checks import check_counts
from attention_lab.errors import LabError


def check_cell(cell: str) -> None:
    """Raise LabError if a kind of recurrent cell is unknown."""
    if cell not in ("lstm", "gru"):
        raise LabError(f"model.cell={cell} is unknown: choose lstm or gru")


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """Recurrent layers with attention that generate symbols.

    Attributes:
        embedding_size: size of the symbol embeddings, in encoder and decoder.
        hidden_size: size of annotations and decoder states.
        layers: number of layers in encoder and decoder.
        cell: `lstm` or `gru`.
        wiring: `bahdanau`, attend before the recurrent step, or `luong`, after it; see `AttentiveDecoder`.
        input_feeding: feed the attentional vector to the next step.
        dropout: dropout probability on embeddings or features, between layers and before the logits.
        attention_dropout: dropout probability on the attention weights.

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
        check_cell(self.cell)
        if self.wiring not in ("bahdanau", "luong"):
            raise LabError(f"model.wiring={self.wiring} is unknown: choose bahdanau or luong")
        check_counts(
            "model", 1, embedding_size=self.embedding_size, hidden_size=self.hidden_size, layers=self.layers
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
        ctc_frames: frames per annotation of a `CTCHead`, which learns to predict the target from the encoder;
            0 for none.
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
        check_counts("model", 1, channels=self.channels)
        check_counts("model", 2, hidden_size=self.hidden_size)
