"""The window of a flash attention that is not causal, as in ModernBERT."""

import torch
from torch import nn

from attention_lab.attention.recorder import Selection
from attention_lab.attention.recording.libraries.hugging_face import flash_call


def test_window_without_causal_order_reaches_to_both_sides() -> None:
    query, key = torch.randn(2, 1, 2, 6, 4, dtype=torch.float64).unbind(0)
    call = flash_call(nn.Identity(), query, key, sliding_window=3, is_causal=False)
    weights, _ = call.weights(Selection())
    places = torch.arange(6)
    far = (places[:, None] - places).abs() > 2  # flash attention is given the window (2, 2)
    expected = (query @ key.mT / 2).masked_fill(far, -torch.inf).softmax(-1)
    torch.testing.assert_close(weights, expected)
