"""Angles of rotary positions are computed once; their formula is tested with those of other positions."""

import pytest
import torch
from counted_operators import Operators
from torch._subclasses import FakeTensorMode

from attention_lab.attention.positions import Rotary


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_angles_are_computed_once(dtype: torch.dtype) -> None:
    """Also after inference; they are part of no checkpoint, and no tensors without values get them."""
    rotary, x = Rotary(2, 10), torch.randn(3, 2, 5, 10, dtype=dtype, requires_grad=True)
    with torch.inference_mode():
        rotary.rotate(x, 2)
    with Operators() as operators:
        found = rotary.rotate(x, 7)
        found.sum().backward()
    assert not operators.calls["cos"]
    assert torch.equal(found, torch.func.vmap(lambda x: rotary.rotate(x[None], 7)[0])(x))  # computes them
    far = rotary.rotate(x, 4094)  # across the end of those that are remembered
    assert torch.allclose(far[:, :, :2], rotary.rotate(x[:, :, :2], 4094))
    with FakeTensorMode():
        assert rotary.rotate(torch.empty(1, 2, 5, 10, dtype=dtype), 7).shape == (1, 2, 5, 10)
    assert rotary.rotate(x.detach().to("meta"), 7).is_meta
    assert not rotary.state_dict() and not list(rotary.buffers())
