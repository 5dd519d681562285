"""The two options of dropout: `attention_dropout` of the weights of every attention, `dropout` elsewhere."""

from typing import Any

import pytest
from small_models import SIZES
from torch import nn

from attention_lab import models
from attention_lab.attention import Attention, Dropout, Mechanism, ScaledDot
from attention_lab.sizes import GraphSizes, ImageSizes, LanguageSizes, TransductionSizes

DROPOUT = {"dropout": 0.125, "attention_dropout": 0.25}
LAYERS: dict[str, Any] = {"d_model": 4, "layers": 2, **DROPOUT}
HEADS = {**LAYERS, "heads": 2, "feedforward": 4}
RECURRENT: dict[str, Any] = {"embedding_size": 3, "hidden_size": 4, **DROPOUT}


@pytest.mark.parametrize(
    ("kind", "sizes", "options"),
    [
        (models.Seq2Seq, TransductionSizes(7, 7), RECURRENT),
        (models.ImageToSequence, ImageSizes(height=4, cell=2, target_vocabulary=6), RECURRENT),
        (models.Transformer, TransductionSizes(7, 7), HEADS),
        (models.LanguageModel, LanguageSizes(vocabulary=7, length=3), HEADS),
        (models.MultiHeadClassifier, SIZES, {**HEADS, "readout": "attention"}),
        (models.GraphClassifier, GraphSizes(classes=2, features=3), HEADS),
        (models.ConvolutionalClassifier, SIZES, {**LAYERS, "kernel_size": 3, "readout": "attention"}),
        (models.RecurrentClassifier, SIZES, {**LAYERS, "readout": "attention"}),
    ],
)
def test_each_option_reaches_all_its_places(kind: Any, sizes: object, options: dict[str, Any]) -> None:
    modules = list(kind(Mechanism(ScaledDot), sizes, **options).modules())
    of_weights = [one.dropout for one in modules if isinstance(one, Attention)]
    others = [one for one in modules if isinstance(one, Dropout | nn.Dropout) and one not in of_weights]
    assert of_weights and {one.p for one in of_weights} == {0.25}
    assert others and {one.p for one in others} == {0.125}
