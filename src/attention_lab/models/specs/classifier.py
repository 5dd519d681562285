"""The options of the classifiers of sequences."""

from dataclasses import dataclass

from attention_lab.argument_checks import check_counts
from attention_lab.errors import LabError
from attention_lab.models.specs.layers import SequenceSpec
from attention_lab.models.specs.recurrent import check_cell


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
class ReadoutSpec:
    """The options of a classifier with attention at most in its readout, not in its encoder.

    Attributes:
        d_model: size of the representations.
        layers: number of layers.
        dropout: dropout probability on the embeddings and the output of each layer.
        attention_dropout: dropout probability on the attention weights.
        readout: `mean` or `max` over the positions, the `last` one, `linear` (a learned weight for each
            position), or `attention` (a learned query attends to them).

    Raises:
        LabError: a size is below 1.
    """

    d_model: int
    layers: int
    dropout: float = 0.2
    attention_dropout: float = 0.0
    readout: str = "attention"

    def __post_init__(self) -> None:
        check_counts("model", 1, d_model=self.d_model, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class ConvolutionalSpec(ReadoutSpec):
    """The options of a `ConvolutionalClassifier`.

    Attributes:
        d_model: size of the representations, the number of channels of every layer.
        kernel_size: positions that each kernel spans; odd.
    """

    kernel_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts("model", 1, kernel_size=self.kernel_size)


@dataclass(frozen=True, kw_only=True)
class RecurrentClassifierSpec(ReadoutSpec):
    """The options of a `RecurrentClassifier`.

    Attributes:
        d_model: size of the representations; even, because each direction gets half.
        cell: `lstm` or `gru`.
    """

    cell: str = "lstm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cell(self.cell)
