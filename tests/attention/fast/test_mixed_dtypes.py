"""Mixed dtypes and autocast: the fast paths take and return the same dtypes as the plain formula."""

import pytest
import torch
from mechanisms import NORMALIZERS, SCORES

from attention_lab.attention import Attention, Band, Gaussian, Global, Softmax


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(
    ("of_pairs", "of_values"), [(torch.float32, torch.float64), (torch.float64, torch.float32)]
)
@pytest.mark.parametrize("score", ["Dot", "ScaledDot", "Gaussian", "Constant", "Linear"])
def test_the_context_has_the_dtype_of_the_values(
    score: str, of_pairs: torch.dtype, of_values: torch.dtype, windowed: bool
) -> None:
    torch.manual_seed(0)
    length = 512 if windowed else 7  # so long that the keys of a band are cut into strips
    attention = Attention(SCORES[score](4, 4), window=Band(4, width=4) if windowed else Global(4))
    dtypes = (of_pairs, of_pairs, of_values)
    inputs = [torch.randn(2, length, 4, dtype=dtype, requires_grad=True) for dtype in dtypes]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    query, key, value = inputs
    memory = attention.remember(key, value)
    context = attention(query, memory)
    plain = attention.pool(attention.weights(query, memory), value)
    torch.testing.assert_close(context, plain, rtol=1e-5, atol=1e-5)
    assert context.dtype == value.dtype
    query, key, value = exact
    expected = attention.double()(query, attention.remember(key, value))
    torch.testing.assert_close(context.double(), expected, rtol=1e-5, atol=1e-5)
    context.double().square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(inputs, exact, strict=True):
        if other.grad is not None:
            assert one.grad is not None
            torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("of_values", [torch.float32, torch.float64])
@pytest.mark.parametrize("of_pairs", [torch.float32, torch.float64])
@pytest.mark.parametrize("score", ["Dot", "ScaledDot", "Constant"])
def test_autocast_leaves_float64_as_it_is(
    score: str, of_pairs: torch.dtype, of_values: torch.dtype, windowed: bool
) -> None:
    """Strips of keys were cast to half precision; without a window, the kernel failed."""
    torch.manual_seed(0)
    length = 512 if windowed else 7
    attention = Attention(SCORES[score](4, 4), window=Band(4, width=4) if windowed else Global(4))
    query, key, value = (torch.randn(2, length, 4, dtype=one) for one in (of_pairs, of_pairs, of_values))
    exact = attention.weights(query.double(), attention.remember(key.double())) @ value.double()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memory = attention.remember(key, value)
        context = attention(query, memory)
        plain = attention.pool(attention.weights(query, memory), value)
    assert context.dtype == plain.dtype
    tolerance = 1e-12 if of_pairs == of_values == torch.float64 else 0.1
    torch.testing.assert_close(context.double(), exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_width_in_single_precision_and_inputs_in_half(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, 4)
    attention = Attention(Gaussian(4, 4), Softmax())
    context = attention(x.to(dtype), attention.remember(x.to(dtype)))
    assert context.dtype == dtype
    torch.testing.assert_close(context.float(), attention(x, attention.remember(x)), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
@pytest.mark.parametrize("score", sorted(SCORES))
def test_autocast_gives_every_path_the_same_dtype(score: str, normalizer: str, causal: bool) -> None:
    torch.manual_seed(0)
    attention = Attention(SCORES[score](4, 4), NORMALIZERS[normalizer]())
    x = torch.randn(2, 7, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memory = attention.remember(x, causal=causal)
        context = attention(x, memory)
        plain = attention.pool(attention.weights(x, memory), memory.value)
    assert context.dtype == plain.dtype
    torch.testing.assert_close(context.float(), plain.float(), rtol=0.05, atol=0.05)
