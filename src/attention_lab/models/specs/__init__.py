"""The options of the models: declared, documented and given their defaults in one place.

A model takes the fields of its spec as options, for example `Transformer(mechanism, sizes, heads=8)`; see
`options_of`.
"""

from collections.abc import Mapping
from typing import Any

from attention_lab.constructor_options import make_spec
from attention_lab.models.specs.classifier import (
    ConvolutionalSpec,
    MultiHeadSpec,
    ReadoutSpec,
    RecurrentClassifierSpec,
)
from attention_lab.models.specs.layers import (
    DecoderSpec,
    EncoderSpec,
    GraphSpec,
    LanguageSpec,
    LayerSpec,
    SequenceSpec,
    TransformerSpec,
)
from attention_lab.models.specs.recurrent import ImageToSequenceSpec, RecurrentSpec, Seq2SeqSpec

__all__ = [
    "SPECS",
    "ConvolutionalSpec",
    "DecoderSpec",
    "EncoderSpec",
    "GraphSpec",
    "ImageToSequenceSpec",
    "LanguageSpec",
    "LayerSpec",
    "MultiHeadSpec",
    "ReadoutSpec",
    "RecurrentClassifierSpec",
    "RecurrentSpec",
    "Seq2SeqSpec",
    "SequenceSpec",
    "TransformerSpec",
    "check_model",
]

SPECS: Mapping[str, type[Any]] = {
    "ConvolutionalClassifier": ConvolutionalSpec,
    "GraphClassifier": GraphSpec,
    "ImageToSequence": ImageToSequenceSpec,
    "LanguageModel": LanguageSpec,
    "MultiHeadClassifier": MultiHeadSpec,
    "RecurrentClassifier": RecurrentClassifierSpec,
    "Seq2Seq": Seq2SeqSpec,
    "Transformer": TransformerSpec,
}
"""The spec of each model that has one."""


def check_model(part: Mapping[str, Any]) -> None:
    """Reject wrong options of a model of this package.

    Raises:
        LabError: an option is wrong; the message names it.
    """
    make_spec(SPECS, "attention_lab.models", part)
