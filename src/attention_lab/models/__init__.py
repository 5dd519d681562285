"""Models: plain `nn.Module`s built from attention, without training, data or configuration."""

from typing import TYPE_CHECKING

from attention_lab.lazy_names import lazy_names

if TYPE_CHECKING:
    from attention_lab.models.classifier import (
        ConvolutionalClassifier,
        MultiHeadClassifier,
        RecurrentClassifier,
        SequenceClassifier,
    )
    from attention_lab.models.ensemble import ClassifierEnsemble, Ensemble
    from attention_lab.models.graph import GraphClassifier
    from attention_lab.models.image2seq import ImageToSequence
    from attention_lab.models.kernel_regression import KernelRegression
    from attention_lab.models.language import LanguageModel
    from attention_lab.models.parts.encoder import Encoder
    from attention_lab.models.seq2seq import EncoderDecoder, Seq2Seq
    from attention_lab.models.transduction import TransductionModel
    from attention_lab.models.transformer import Transformer
    from attention_lab.models.two_way import TwoWayEnsemble

__all__ = [
    "ClassifierEnsemble",
    "ConvolutionalClassifier",
    "Encoder",
    "EncoderDecoder",
    "Ensemble",
    "GraphClassifier",
    "ImageToSequence",
    "KernelRegression",
    "LanguageModel",
    "MultiHeadClassifier",
    "RecurrentClassifier",
    "Seq2Seq",
    "SequenceClassifier",
    "TransductionModel",
    "Transformer",
    "TwoWayEnsemble",
]

_MODULES = [
    "classifier",
    "ensemble",
    "graph",
    "image2seq",
    "kernel_regression",
    "language",
    "parts.encoder",
    "seq2seq",
    "transduction",
    "transformer",
    "two_way",
]
__getattr__ = lazy_names(__name__, __all__, _MODULES)  # specs are used before torch is imported
