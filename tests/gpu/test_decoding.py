"""A sequence that is read step by step on the GPU, as in generating."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from every_dtype import ERRORS, every_dtype

from attention_lab.attention import Additive, Mechanism, MultiHead, ScaledDot
from attention_lab.attention.positions import Rotary

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("padding", [0, 13])
@pytest.mark.parametrize("groups", [4, 1])
@pytest.mark.parametrize("score", [ScaledDot, Additive])
@every_dtype
def test_steps_equal_the_formula_and_never_wait_for_the_device(
    score: type,
    groups: int,
    padding: int,
    dtype: torch.dtype,
    device: torch.device,
    no_synchronization: Callable[[], AbstractContextManager[None]],
) -> None:
    torch.manual_seed(0)
    layer = MultiHead(Mechanism(score), 64, 4, relative=Rotary(4, 16), key_value_heads=groups).to(dtype)
    x = torch.randn(2, 100, 64).to(dtype)
    exact = MultiHead(Mechanism(score), 64, 4, relative=Rotary(4, 16), key_value_heads=groups).double()
    exact.load_state_dict(layer.state_dict())
    mask = torch.arange(100).expand(2, 1, 100) >= torch.tensor([padding, 0]).view(2, 1, 1)  # on the left
    expected = exact(x.double(), mask, causal=True).detach()
    layer, parts = layer.to(device), x.to(device).split([20, *[1] * 80], 1)
    with torch.no_grad():
        output, memory = layer.step(parts[0], mask=mask[..., :20].to(device) if padding else None)
        found = [output]
        with no_synchronization():
            for part in parts[1:]:
                output, memory = layer.step(part, memory)
                found.append(output)
    error = (torch.cat(found, 1).cpu().double() - expected).abs().max() / expected.abs().max()
    assert error <= ERRORS[dtype]
