"""The options of the classifiers of sequences."""

from dataclasses import dataclass

from attention_lab.errors import LabError
from attention_lab.models.specs.layers import SequenceSpec


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
