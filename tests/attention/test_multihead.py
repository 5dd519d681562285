"""The multi-head shell against torch's own, and its two ways in."""

import pytest
import torch
from torch import nn

from attention_lab.attention import (
    Additive,
    Gaussian,
    Mechanism,
    MultiHead,
    ScaledDot,
    lengths_mask,
    recording,
)
from attention_lab.errors import LabError


def _pair(size: int, heads: int) -> tuple[MultiHead, nn.MultiheadAttention]:
    torch.manual_seed(0)
    ours = MultiHead(Mechanism(ScaledDot), size, heads).double()
    theirs = nn.MultiheadAttention(size, heads, batch_first=True).double()
    nn.init.normal_(ours.project.bias)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_equals_torch(heads: int) -> None:
    ours, theirs = _pair(8, heads)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = lengths_mask(torch.tensor([5, 2, 4]), 5)
    expected, weights = theirs(x, x, x, key_padding_mask=~mask[:, 0], average_attn_weights=False)
    assert torch.allclose(ours(x, mask), expected, atol=1e-12)
    with recording(ours) as seen:
        assert torch.allclose(ours(x, mask), expected, atol=1e-12)
    assert torch.allclose(seen["attention"], weights, atol=1e-12)


def test_attending_to_a_remembered_source_equals_torch() -> None:
    ours, theirs = _pair(8, 2)
    query, source = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 6, 8, dtype=torch.float64)
    assert torch.allclose(
        ours.attend(query, ours.remember(source)), theirs(query, source, source)[0], atol=1e-12
    )
    assert torch.allclose(ours.attend(source, ours.remember(source)), ours(source), atol=1e-12)


@pytest.mark.parametrize("score", [Additive, Gaussian])
def test_a_score_has_its_own_parameters_in_each_head(score: type) -> None:
    module = MultiHead(Mechanism(score), 8, 2).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    with recording(module) as before:
        module(x)
    with torch.no_grad():
        for parameter in module.attention.score.parameters():
            parameter[0] *= 1.5
    with recording(module) as after:
        module(x)
    assert not torch.allclose(before["attention"][:, 0], after["attention"][:, 0])
    assert torch.equal(before["attention"][:, 1], after["attention"][:, 1])


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(LabError, match=r"d_model=10 must be a multiple of model\.heads=4"):
        MultiHead(Mechanism(ScaledDot), 10, 4)
