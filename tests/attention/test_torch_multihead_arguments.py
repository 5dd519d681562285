"""The arguments of the drop-in for torch.nn.MultiheadAttention, which tools look up by name."""

from inspect import signature
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attention_lab import MultiheadAttention


def test_they_are_those_of_torch_by_name_and_place() -> None:
    *ours, mechanism = signature(MultiheadAttention).parameters.values()
    torchs = signature(nn.MultiheadAttention).parameters.values()
    assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in torchs]
    assert mechanism.name == "mechanism"


def test_parameters_without_initialisation() -> None:
    # It looks for an argument `device`.
    layer: MultiheadAttention = nn.utils.skip_init(MultiheadAttention, 8, 2, kdim=5)
    assert layer.k_proj_weight.shape == (8, 5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_arguments_are_tensors() -> None:
    module: Any = MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(2, 3, 4)
    for arguments, options, complaint in (
        ((x.numpy(), x, x), {}, "query, not a ndarray"),
        ((x, [1.0], x), {}, "key, not a list"),
        ((x, x, None), {}, "value, not a NoneType"),
        ((x, x, x), {"key_padding_mask": np.ones((2, 3), bool)}, "key_padding_mask, not a ndarray"),
        ((x, x, x), {"attn_mask": [[True]]}, "attn_mask, not a list"),
    ):
        with pytest.raises(TypeError, match=f"^MultiheadAttention takes a tensor as {complaint}$"):
            module(*arguments, **options)


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_a_causal_mask_never_hides_an_appended_key(options: dict[str, bool]) -> None:
    """As in torch's with weights; without, its kernel takes the appended key for a later one."""
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, **options).eval()
    ours = MultiheadAttention.from_torch(theirs).eval()
    x, mask = torch.randn(2, 3, 8), nn.Transformer.generate_square_subsequent_mask(3)
    expected, _ = theirs(x, x, x, attn_mask=mask, is_causal=True)
    for need_weights in (True, False):
        found, _ = ours(x, x, x, attn_mask=mask, is_causal=True, need_weights=need_weights)
        torch.testing.assert_close(found, expected)
