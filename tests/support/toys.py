"""Small models of every kind, and a batch for those that generate sequences, shared by many tests."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.attention import Mechanism, ScaledDot
from attention_lab.models import (
    ConvolutionalClassifier,
    Encoder,
    GraphClassifier,
    ImageToSequence,
    LanguageModel,
    MultiHeadClassifier,
    RecurrentClassifier,
    Seq2Seq,
    Transformer,
)
from attention_lab.sizes import ClassificationSizes, GraphSizes, ImageSizes, LanguageSizes, TransductionSizes
from attention_lab.special_symbols import BOS, EOS, PAD

SYMBOLS = TransductionSizes(source_vocabulary=9, target_vocabulary=8)
SOURCE = torch.tensor([[4, 5, 6, 7, 8, EOS], [5, 4, EOS, PAD, PAD, PAD], [8, 7, 6, EOS, PAD, PAD]])
LENGTHS = torch.tensor([6, 3, 4])
TARGET = torch.tensor([[4, 5, 6, 7, EOS], [7, EOS, PAD, PAD, PAD], [5, 6, 5, EOS, PAD]])
LABELS = ClassificationSizes(classes=3, length=8, vocabulary=12)

RECURRENT: dict[str, Any] = {"embedding_size": 5, "hidden_size": 6}
LAYERS: dict[str, Any] = {"d_model": 8, "heads": 2, "layers": 2, "feedforward": 12}
MODELS: dict[type[nn.Module], tuple[Any, dict[str, Any]]] = {
    Seq2Seq: (SYMBOLS, RECURRENT),
    Transformer: (SYMBOLS, {**LAYERS, "decoder_layers": 3}),
    ImageToSequence: (ImageSizes(height=8, cell=4, target_vocabulary=7), {"channels": 3, **RECURRENT}),
    MultiHeadClassifier: (LABELS, LAYERS),
    ConvolutionalClassifier: (LABELS, {"d_model": 16, "layers": 2, "kernel_size": 3}),
    RecurrentClassifier: (LABELS, {"d_model": 16, "layers": 2, "cell": "gru"}),
    LanguageModel: (LanguageSizes(vocabulary=12, length=10), LAYERS),
    GraphClassifier: (GraphSizes(classes=3, features=4), LAYERS),
}
"""The sizes and options of a small model, unless a test gives its own."""


def toy(
    kind: type[nn.Module],
    mechanism: Mechanism | type = ScaledDot,
    sizes: Any = None,
    *,
    seed: int = 0,
    **options: Any,
) -> Any:
    """A small model in single precision, for training; equal seeds give equal weights."""
    usual, small = MODELS[kind]
    chosen = mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism)
    torch.manual_seed(seed)
    return kind(chosen, usual if sizes is None else sizes, **{**small, **options})


def exact_toy(*arguments: Any, **options: Any) -> Any:
    """A `toy` in double precision and without dropout, to be compared with formulas."""
    return toy(*arguments, **options).double().eval()


def toy_encoder(mechanism: Mechanism | type = ScaledDot, *, seed: int = 0, **options: Any) -> Encoder:
    """A small encoder in double precision and without dropout."""
    chosen = mechanism if isinstance(mechanism, Mechanism) else Mechanism(mechanism)
    torch.manual_seed(seed)
    return Encoder(chosen, **{**LAYERS, "length": 16, **options}).double().eval()


def sharpened(model: Any) -> Any:
    """The model with output weights that make its probabilities far from uniform."""
    nn.init.normal_(model.decoder.output.weight, std=2.0)
    return model


def check_steps(model: Any) -> None:
    """Symbol by symbol, a model that writes sequences gives the logits of its parallel pass."""
    parallel = model(SOURCE, LENGTHS, TARGET)
    state, tokens = model.start(SOURCE, LENGTHS), torch.full((3,), BOS)
    for step in range(TARGET.shape[1]):
        logits, state = model.step(tokens, state)
        torch.testing.assert_close(logits, parallel[:, step], rtol=0, atol=1e-10)
        tokens = TARGET[:, step]


def check_causal(model: Any) -> None:
    """What a model writes depends on the symbols written before, and on no later ones."""
    changed = TARGET.clone()
    changed[:, 2] = 4
    before, after = model(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, changed)
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-12)
    assert not torch.allclose(before[:, 3], after[:, 3])


def check_every_parameter_learns(model: nn.Module) -> None:
    """Every parameter of a model that writes sequences gets a gradient."""
    model.train()(SOURCE, LENGTHS, TARGET).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def train(model: nn.Module, pairs: Callable[[], tuple[Tensor, Tensor]], steps: int, lr: float) -> Tensor:
    """Train a model on pairs of a source and a target that fill their rows; the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loss = torch.tensor(torch.inf)
    for _ in range(steps):
        source, target = pairs()
        lengths = torch.full((len(source),), source.shape[1])
        loss = nn.functional.cross_entropy(model(source, lengths, target).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
