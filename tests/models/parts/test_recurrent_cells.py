"""Recurrent layers under autocast, on any CPU."""

import pytest
import torch
from torch import Tensor, nn

from attention_lab.models.parts import recurrent_cells
from attention_lab.models.parts.recurrent_cells import recurrent_layers


@pytest.fixture
def layers() -> nn.LSTM | nn.GRU:
    torch.manual_seed(0)
    return recurrent_layers("lstm", 6, 8)


def under_autocast(layers: nn.Module, x: Tensor, *state: object) -> tuple[Tensor, Tensor]:
    """The states, and the gradient of their sum with respect to x."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        states, _ = layers(x, *state)
    states.float().sum().backward()
    assert x.grad is not None
    return states.float(), x.grad


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_autocast_is_close_to_float32(cell: str) -> None:
    layers, x = recurrent_layers(cell, 6, 8), torch.randn(3, 5, 6)
    states, gradient = under_autocast(layers, x)
    expected = x.clone().requires_grad_()
    layers(expected)[0].sum().backward()
    torch.testing.assert_close(states, layers(x)[0], atol=0.02, rtol=0.02)
    torch.testing.assert_close(gradient, expected.grad, atol=0.05, rtol=0.05)


def test_a_cpu_without_bfloat16_computes_in_float32(layers: nn.LSTM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent_cells, "_onednn_supports", lambda dtype: False)
    x, state = torch.randn(3, 5, 6), (torch.randn(1, 3, 8), torch.randn(1, 3, 8))
    states, _ = under_autocast(layers, x, tuple(part.bfloat16() for part in state))
    expected, _ = layers(x, tuple(part.bfloat16().float() for part in state))
    torch.testing.assert_close(states, expected, atol=0, rtol=0)
