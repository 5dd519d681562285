"""Every score found in the package, alone and in heads, against references written from the formulas."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Attention, Kernel, Mechanism, Score, Softmax, recording

_spec = importlib.util.spec_from_file_location("references", Path(__file__).with_name("references.py"))
assert _spec is not None and _spec.loader is not None
references = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(references)

B, Q, K, D = 2, 4, 5, 3


def _leaves(kind: type[Score]) -> list[type[Score]]:
    below = [leaf for child in kind.__subclasses__() for leaf in _leaves(child)]
    return below or [kind]


SCORES = sorted(_leaves(Score), key=lambda kind: kind.__name__)
FUSED = {"Dot", "ScaledDot", "General", "Gaussian", "Constant"}


def _masks(heads: int) -> dict[str, Tensor | None]:
    lengths = torch.tensor([K, 2])
    padding = (torch.arange(K) < lengths[:, None])[:, None, None]
    full = torch.rand(B, 1, Q, K, generator=torch.Generator().manual_seed(1)) > 0.4
    empty = full.clone()
    empty[:, :, 1] = False
    return {
        "none": None,
        "padding": padding,
        "empty example": padding & torch.tensor([True, False])[:, None, None, None],
        "per query": full,
        "empty rows": empty,
        "causal": torch.ones(Q, K, dtype=torch.bool).tril(),
    }


MASKS = list(_masks(1))


def _setting(
    kind: type[Score], heads: int, dtype: torch.dtype, temperature: float = 1.0
) -> tuple[Attention, list[Tensor]]:
    torch.manual_seed(0)
    mechanism = Mechanism(kind, lambda: Softmax(temperature))
    attention = mechanism(D, D, heads if heads > 1 else None)
    if isinstance(attention.score, Kernel):
        torch.nn.init.uniform_(attention.score.width, 0.5, 0.8)
    attention = attention.to(dtype)
    tensors = [torch.randn(B, heads, n, d, dtype=torch.float64) for n, d in ((Q, D), (K, D), (K, 2))]
    return attention, [tensor.to(dtype).requires_grad_() for tensor in tensors]


def _gradients(output: Tensor, attention: Attention, tensors: list[Tensor]) -> list[Tensor]:
    direction = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).reshape(output.shape).to(output)
    inputs = [*tensors, *attention.parameters()]
    found = torch.autograd.grad((output * direction).sum(), inputs, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def test_every_score_has_a_reference() -> None:
    assert {kind.__name__ for kind in SCORES} == set(references.PAIRS)


@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_equals_the_formula(kind: type[Score], heads: int, mask_name: str) -> None:
    """Context, weights and all gradients, by the path that training takes and by the recorded one."""
    temperature = 1.7
    attention, tensors = _setting(kind, heads, torch.float64, temperature)
    mask = _masks(heads)[mask_name]
    everywhere = torch.ones(B, heads, Q, K, dtype=torch.bool)
    expected, weights = references.attend(
        attention.score, *tensors, everywhere if mask is None else everywhere & mask, temperature
    )
    wanted = _gradients(expected, attention, tensors)
    query, key, value = tensors
    for recorded in (False, True):
        if recorded:
            with recording(attention) as seen:
                context = attention(query, attention.remember(key, value, mask))
            assert torch.allclose(seen[""], weights, atol=1e-10, rtol=0)
        else:
            context = attention(query, attention.remember(key, value, mask))
        assert torch.allclose(context, expected, atol=1e-10, rtol=0)
        for got, want in zip(_gradients(context, attention, tensors), wanted, strict=True):
            assert torch.allclose(got, want, atol=1e-10, rtol=0)

    single, _ = _setting(kind, heads, torch.float32, temperature)
    floats = [tensor.detach().float().requires_grad_() for tensor in tensors]
    context = single(floats[0], single.remember(floats[1], floats[2], mask))
    assert torch.allclose(context.double(), expected, atol=1e-5, rtol=0)
    for got, want in zip(_gradients(context, single, floats), wanted, strict=True):
        assert torch.allclose(got.double(), want, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_takes_the_fused_path_exactly_when_it_is_an_inner_product(
    kind: type[Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k)
    )
    attention, (query, key, value) = _setting(kind, 2, torch.float32)
    attention(query, attention.remember(key, value))
    assert bool(calls) == (kind.__name__ in FUSED)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("poison", [1e9, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_padding_leaks_neither_value_nor_gradient(kind: type[Score], poison: float, causal: bool) -> None:
    attention, (query, key, value) = _setting(kind, 2, torch.float32)
    mask = _masks(2)["padding"]
    if causal:
        mask = mask & torch.ones(Q, K, dtype=torch.bool).tril()
    clean = attention(query, attention.remember(key, value, mask))
    clean_gradients = _gradients(clean, attention, [query, key, value])
    hidden = torch.arange(K)[:, None] >= torch.tensor([K, 2])[:, None, None, None]
    bad_key, bad_value = (x.detach().masked_fill(hidden, poison).requires_grad_() for x in (key, value))
    context = attention(query, attention.remember(bad_key, bad_value, mask))
    assert torch.allclose(context, clean, atol=1e-6, rtol=0)
    for got, want in zip(
        _gradients(context, attention, [query, bad_key, bad_value]), clean_gradients, strict=True
    ):
        assert torch.allclose(got, want, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_poison_behind_a_mask_per_query(kind: type[Score]) -> None:
    attention, (query, key, value) = _setting(kind, 1, torch.float32)
    mask = torch.ones(Q, K, dtype=torch.bool)
    mask[0, 4] = False
    clean = attention(query, attention.remember(key, value, mask))
    value = value.detach().clone()
    value[:, :, 4] = 1e9
    context = attention(query, attention.remember(key, value, mask))
    assert torch.allclose(context[:, :, 0], clean[:, :, 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_permuting_the_keys_permutes_the_weights(kind: type[Score]) -> None:
    attention, (query, key, value) = _setting(kind, 2, torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    weights = attention.weights(query, attention.remember(key, value))
    permuted = attention.weights(query, attention.remember(key[:, :, order], value[:, :, order]))
    assert torch.allclose(weights[..., order], permuted, atol=1e-12)


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_bfloat16_is_near(kind: type[Score]) -> None:
    attention, tensors = _setting(kind, 2, torch.float32)
    if kind.__name__ == "Boxcar":
        tensors = [tensor * 0.1 for tensor in tensors]  # keep every pair away from the edge of the box
    query, key, value = tensors
    expected = attention(query, attention.remember(key, value))
    half = attention.bfloat16()
    context = half(query.bfloat16(), half.remember(key.bfloat16(), value.bfloat16()))
    assert context.dtype == torch.bfloat16
    assert torch.allclose(context.float(), expected, atol=4e-2 if kind.__name__ == "Epanechnikov" else 2e-2)


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_a_memory_serves_any_number_of_queries_and_any_selection(kind: type[Score]) -> None:
    attention, (query, key, value) = _setting(kind, 1, torch.float64)
    query, key, value = (x[:, 0] for x in (query, key, value))
    memory = attention.remember(key, value, torch.arange(K) < torch.tensor([K, 2])[:, None, None])
    together = attention(query, memory)
    apart = torch.cat([attention(query[:, i : i + 1], memory) for i in range(Q)], 1)
    assert torch.allclose(together, apart, atol=1e-12)
    swapped = attention(query[[1, 0, 0]], memory.select(torch.tensor([1, 0, 0])))
    assert torch.allclose(swapped, together[[1, 0, 0]], atol=1e-12)
