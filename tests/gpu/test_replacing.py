"""Models with a mechanism in place of their attention, on the device."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from fused_callers import CALLERS, Model, inputs
from torch import Tensor

from attention_lab import replace_attention
from attention_lab.attention import Additive, Entmax15, Mechanism, ScaledDot

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.gpu

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}


def _model(name: str, device: torch.device, dtype: torch.dtype) -> tuple[Any, dict[str, Tensor]]:
    torch.manual_seed(0)
    options = {"num_key_value_heads": 2} if name == "Llama" else {}
    config = getattr(transformers, f"{name}Config")(vocab_size=50, **SIZES, **options)
    model = getattr(transformers, f"{name}Model")._from_config(config).to(device, dtype).eval()
    tokens = torch.randint(3, 50, (3, 12), device=device)
    real = torch.arange(12, device=device) < torch.tensor([[12], [7], [4]], device=device)
    return model, {"input_ids": tokens, "attention_mask": real.long()}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["Bert", "Llama"])
def test_the_scaled_dot_product_leaves_a_model_as_it_is(
    name: str, dtype: torch.dtype, device: torch.device
) -> None:
    model, inputs = _model(name, device, dtype)
    real = inputs["attention_mask"].bool()
    expected = model(**inputs)[0][real]
    replace_attention(model, Mechanism(ScaledDot))
    found = model(**inputs)[0][real]
    torch.testing.assert_close(found, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["Bert", "Llama"])
@pytest.mark.parametrize(
    "mechanism", [Mechanism(ScaledDot, normalizer=Entmax15), Mechanism(Additive)], ids=["entmax", "additive"]
)
def test_a_mechanism_is_made_on_the_device_and_gives_what_the_cpu_gives(
    name: str, mechanism: Mechanism, device: torch.device
) -> None:
    model, inputs = _model(name, device, torch.float32)
    new = replace_attention(model, mechanism)
    assert {one.device.type for each in new.values() for one in each.parameters()} <= {device.type}
    real = inputs["attention_mask"].bool()
    found = model(**inputs)[0][real]
    found.square().sum().backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in model.parameters())
    inputs = {key: x.cpu() for key, x in inputs.items()}
    expected = model.cpu()(**inputs)[0][real.cpu()]
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_attention_to_all_keys_never_waits_for_the_device(
    device: torch.device, no_synchronization: Callable[[], AbstractContextManager[None]]
) -> None:
    """With padding, transformers itself looks at the mask."""
    model, inputs = _model("Llama", device, torch.float32)
    replace_attention(model, Mechanism(ScaledDot))
    with no_synchronization():
        model(inputs["input_ids"])[0].sum().backward()


@pytest.mark.parametrize("name", ["causal", "learned bias", "grouped"])
def test_modules_that_call_the_fused_function(
    name: str, device: torch.device, no_synchronization: Callable[[], AbstractContextManager[None]]
) -> None:
    model, x = Model(CALLERS[name]).to(device), inputs(3, 7).to(device)
    expected = model(x)
    replace_attention(model, Mechanism(ScaledDot), x)
    torch.testing.assert_close(model(x), expected, atol=1e-4, rtol=1e-4)
    new = replace_attention(model, Mechanism(Additive), x)
    assert {one.device.type for each in new.values() for one in each.parameters()} == {device.type}
    model(x)
    with no_synchronization():
        model(x).sum().backward()
    torch.testing.assert_close(model(x).cpu(), model.cpu()(x.cpu()), atol=1e-4, rtol=1e-4)
