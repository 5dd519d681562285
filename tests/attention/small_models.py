"""The models, each by a function that builds a small one around a mechanism and runs it on an example."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_lab.attention import Mechanism, recording
from attention_lab.models import (
    ConvolutionalClassifier,
    GraphClassifier,
    ImageToSequence,
    KernelRegression,
    LanguageModel,
    MultiHeadClassifier,
    RecurrentClassifier,
    Seq2Seq,
    Transformer,
)
from attention_lab.sizes import (
    ClassificationSizes,
    GraphSizes,
    ImageSizes,
    LanguageSizes,
    RegressionSizes,
    TransductionSizes,
)
from attention_lab.special_symbols import EOS

SIZES = ClassificationSizes(classes=2, length=3, vocabulary=7)
SEQUENCE = torch.tensor([[4, 5, 0]]), torch.tensor([2])


def _seq2seq(mechanism: Mechanism) -> None:
    model = Seq2Seq(mechanism, TransductionSizes(7, 7), embedding_size=3, hidden_size=4, wiring="luong")
    source = torch.tensor([[4, 5, EOS], [EOS, 0, 0]])
    model.double().eval()(source, torch.tensor([3, 1]), torch.tensor([[6, 5], [EOS, 0]]))


def _transformer(mechanism: Mechanism) -> None:
    """The attentions of the encoder, of the decoder and between them."""
    sizes, positions = TransductionSizes(7, 7), "sinusoidal"
    model = Transformer(mechanism, sizes, d_model=4, heads=1, layers=1, feedforward=4, positions=positions)
    source, target = torch.tensor([[4, EOS, 0]]), torch.tensor([[6, EOS]])
    model.double().eval()(source, torch.tensor([2]), target)


def _image2seq(mechanism: Mechanism) -> None:
    sizes, options = (
        ImageSizes(height=4, cell=2, target_vocabulary=6),
        {"embedding_size": 3, "hidden_size": 4},
    )
    model = ImageToSequence(mechanism, sizes, channels=2, wiring="luong", **options)
    model.double().eval()(torch.randn(1, 4, 6).double(), torch.tensor([4]), torch.tensor([[4, EOS]]))


def _multihead(mechanism: Mechanism) -> None:
    model = MultiHeadClassifier(mechanism, SIZES, d_model=6, heads=2, layers=1, feedforward=4)
    model.double().eval()(*SEQUENCE)


def _cnn(mechanism: Mechanism) -> None:
    model = ConvolutionalClassifier(mechanism, SIZES, d_model=4, layers=1, kernel_size=3, readout="attention")
    model.double().eval()(*SEQUENCE)


def _rnn(mechanism: Mechanism) -> None:
    model = RecurrentClassifier(mechanism, SIZES, d_model=4, layers=1, readout="attention")
    model.double().eval()(*SEQUENCE)


def _lm(mechanism: Mechanism) -> None:
    sizes, positions = LanguageSizes(vocabulary=7, length=3), "sinusoidal"
    model = LanguageModel(mechanism, sizes, d_model=4, heads=1, layers=1, feedforward=4, positions=positions)
    model.double().eval()(torch.tensor([[1, 4, 5]]))


def _graph(mechanism: Mechanism) -> None:
    """Of four nodes, the last one alone."""
    sizes, options = GraphSizes(classes=2, features=3), {"heads": 1, "layers": 1, "attention_dropout": 0.0}
    model = GraphClassifier(mechanism, sizes, d_model=4, feedforward=4, **options)
    model.double().eval()(torch.randn(4, 3).double(), torch.tensor([[0, 1], [1, 2]]))


def _nw(mechanism: Mechanism) -> Tensor:
    """Return the prediction too: a Gaussian kernel bypasses its attention unless it is recorded."""
    sizes = RegressionSizes(features=2, targets=1, samples=5)
    model = KernelRegression(mechanism, sizes).double().eval()
    model.memorize(torch.randn(5, 2).double(), torch.randn(5, 1).double())
    query, index = model.keys[:3] + 0, torch.tensor([0, 1, -1])
    with recording(model):
        model(query, index)
    predicted: Tensor = model(query, index)
    return predicted


MODELS: dict[str, Callable[[Mechanism], Tensor | None]] = {
    "seq2seq": _seq2seq,
    "transformer": _transformer,
    "image2seq": _image2seq,
    "multihead": _multihead,
    "cnn": _cnn,
    "rnn": _rnn,
    "lm": _lm,
    "graph": _graph,
    "nw": _nw,
}
ATTENTIONS = {"transformer": 3}
"""How many attentions a model has, where it is more than one."""
