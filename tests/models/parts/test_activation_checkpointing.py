"""checkpointing=true: the same gradients, dropout included, with fewer stored activations."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import LABELS, toy

from attention_lab.attention import Mechanism, ScaledDot, recording
from attention_lab.models import Encoder, LanguageModel, MultiHeadClassifier, Transformer
from attention_lab.sizes import TransductionSizes

TOKENS = torch.tensor([[4, 5, 6, 7, 2], [5, 6, 2, 0, 0], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
OPTIONS: dict[str, Any] = {"d_model": 8, "heads": 2, "layers": 3, "feedforward": 32, "dropout": 0.3}
MODELS: dict[str, tuple[type[nn.Module], Any, tuple[Tensor, ...]]] = {
    "multihead": (MultiHeadClassifier, LABELS, (TOKENS, LENGTHS)),
    "lm": (LanguageModel, None, (TOKENS,)),
    "transformer": (Transformer, TransductionSizes(9, 9), (TOKENS, LENGTHS, TOKENS.flip(0))),
}


def _model(name: str, *, checkpointing: bool) -> nn.Module:
    kind, sizes, _ = MODELS[name]
    options = {**OPTIONS, "checkpointing": checkpointing, "attention_dropout": 0.2}
    return toy(kind, ScaledDot, sizes, **options).double()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_same_and_less_is_kept(name: str) -> None:
    found, kept = [], []
    for checkpointing in (False, True):
        model = _model(name, checkpointing=checkpointing)
        numbers = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal numbers
            numbers += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            output = model(*MODELS[name][-1])
        output.square().sum().backward()
        kept.append(numbers)
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        found.append([output.detach(), *gradients])
    assert len(found[0]) > 20
    for plain, again in zip(*found, strict=True):
        assert torch.equal(plain, again)
    assert kept[1] < kept[0] / 2


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_recorded_once(name: str) -> None:
    model = _model(name, checkpointing=True)
    with recording(model) as weights:
        model(*MODELS[name][-1]).sum().backward()
    assert weights
    assert all(one.shape[2] == TOKENS.shape[1] for one in weights.values())


def test_an_encoder_without_gradients_computes_once() -> None:
    encoder = Encoder(Mechanism(ScaledDot), **OPTIONS, checkpointing=True)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        assert encoder(x).grad_fn is None
    assert torch.equal(encoder.eval()(x), encoder(x))
