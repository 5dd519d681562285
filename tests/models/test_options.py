"""Every option of every model is used: with another value, the result is different."""

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from toys import LENGTHS, MODELS, SOURCE, SYMBOLS, TARGET, exact_toy

from attention_lab import models

BATCHES: dict[Any, tuple[Any, ...]] = {
    models.Seq2Seq: (SOURCE, LENGTHS, TARGET),
    models.Transformer: (SOURCE, LENGTHS, TARGET),
    models.ImageToSequence: (torch.rand(3, 8, 12).double(), torch.tensor([12, 8, 4]), TARGET % 7),
    models.LanguageModel: (SOURCE,),
    models.GraphClassifier: (torch.rand(4, 4).double(), torch.tensor([[0, 1, 2], [1, 2, 3]])),
}
SIZES: dict[Any, Any] = {models.Seq2Seq: replace(SYMBOLS, tags=1, copies=(0, 0, 0, 0, 4, 5, 6, 7, 0))}
OTHER = {
    "positions": "learned",
    "readout": "max",
    "cell": "gru",
    "memory": "final",
    "wiring": "luong",
    "decoder_layers": 1,
    "key_value_heads": 1,
    "kernel_size": 5,
    "norm": "post",
}
WITHOUT_EFFECT = {"dropout", "attention_dropout", "checkpointing"}
"""In evaluation; see below, `test_dropout.py` and `parts/test_activation_checkpointing.py`."""


def _another(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and name not in OTHER:
        return 2 * value or 1
    return OTHER[name] if OTHER[name] != value else {"cell": "lstm", "wiring": "bahdanau"}[name]


def _computed(kind: Any, **options: Any) -> dict[str, Tensor]:
    """The initial weights, and the outputs for a batch."""
    model = exact_toy(kind, sizes=SIZES.get(kind), **{"layers": 2, **options})
    return {**model.state_dict(), "outputs": model(*BATCHES.get(kind, (SOURCE, LENGTHS)))}


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (kind, name)
        for kind in MODELS
        for name in [*inspect.signature(kind).parameters][2:]
        if name not in WITHOUT_EFFECT
    ],
)
def test_every_option_changes_what_a_model_computes(kind: Any, option: str) -> None:
    default = inspect.signature(kind).parameters[option].default
    usual = {"layers": 2, **MODELS[kind][1]}.get(option, default)
    one, other = _computed(kind), _computed(kind, **{option: _another(option, usual)})
    assert one.keys() != other.keys() or not all(value.equal(other[name]) for name, value in one.items())


@pytest.mark.parametrize("kind", MODELS)
def test_dropout_reaches_the_input_too(kind: Any) -> None:
    """With all of it dropped, the outputs of training depend on no input."""
    model = exact_toy(kind, sizes=SIZES.get(kind), layers=2, dropout=1.0).train()
    first, *others = BATCHES.get(kind, (SOURCE, LENGTHS))
    assert model(first, *others).allclose(model(first.flip(-1), *others))
