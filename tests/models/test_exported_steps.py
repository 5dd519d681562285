"""The tensors that an exported step passes on are the whole state: its logits are those of the model."""

from typing import Any

import pytest
import torch

from attention_lab.attention import Additive, Dot, LocalP, Mechanism, ScaledDot
from attention_lab.models import Seq2Seq, Transformer
from attention_lab.models.exporting import graphs_of
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS

SIZES = TransductionSizes(10, 9, tags=2, copies=(0, 0, 0, 0, 4, 5, 6, 7, 0, 0))  # 8 and 9 are tags
SOURCE, LENGTHS = torch.tensor([[8, 9, 4, 5, 6, 2], [9, 5, 4, 2, 0, 0]]), torch.tensor([6, 4])
TARGET = torch.tensor([[4, 8, 5, 7, 2], [6, 4, 4, 5, 8]])
RECURRENT: dict[str, Any] = {"embedding_size": 6, "hidden_size": 8}
ATTENTIVE: dict[str, Any] = {"d_model": 8, "heads": 2, "layers": 2, "feedforward": 8}
MODELS: dict[str, Any] = {
    "luong": lambda: Seq2Seq(Mechanism(Additive), SIZES, **RECURRENT, layers=2),
    "bahdanau": lambda: Seq2Seq(
        Mechanism(Dot, window=LocalP), SIZES, **RECURRENT, wiring="bahdanau", input_feeding=True, cell="gru"
    ),
    "tags": lambda: Seq2Seq(Mechanism(Dot), SIZES, **RECURRENT, tag_input=True, copy=True),
    "tags, bahdanau": lambda: Seq2Seq(
        Mechanism(Dot, window=LocalP),
        SIZES,
        **RECURRENT,
        tag_input=True,
        wiring="bahdanau",
        input_feeding=True,
    ),
    "final": lambda: Seq2Seq(Mechanism(Dot), SIZES, **RECURRENT, memory="final"),
    "transformer": lambda: Transformer(Mechanism(ScaledDot), SIZES, **ATTENTIVE),
    "rotary": lambda: Transformer(Mechanism(Additive, window=LocalP), SIZES, **ATTENTIVE, positions="rotary"),
}

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
"""PyTorch's scan calls the steps of a recurrent layer with traced sizes."""


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_an_exported_step_gives_the_logits_of_teacher_forcing(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double().eval()
    expected = model(SOURCE, LENGTHS, TARGET)
    encoder, step = graphs_of(model)
    state, token = encoder.module(SOURCE, LENGTHS), torch.full((2,), BOS)
    assert len(state) == len(encoder.outputs)
    for place, following in enumerate(TARGET.unbind(1)):
        logits, *state = step.module(token, *state)
        torch.testing.assert_close(logits, expected[:, place], rtol=0, atol=1e-12)
        token = following
