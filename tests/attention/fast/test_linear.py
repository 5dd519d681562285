"""Linear attention: sums, chunks and the recurrent form equal the log-kernel under a softmax."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from attention_lab.attention import Attention, Linear, lengths_mask
from attention_lab.attention.fast import linear, linear_triton
from attention_lab.attention.fast.linear import linear_attention, linear_step


def _tensors(length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, 3, length, d, dtype=dtype, generator=generator).requires_grad_() for d in (4, 4, 5)
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [1, 3, 9, 63, 64, 130])
def test_equals_the_softmax_of_the_log_kernel(length: int, masked: bool, causal: bool) -> None:
    attention, (query, key, value) = Attention(Linear(4, 4)), _tensors(length)
    mask = lengths_mask(torch.tensor([length, length // 2]), length)[:, None] if masked else None
    memory = attention.remember(key, value, mask, causal=causal)
    fast = attention(query, memory)
    slow = attention.weights(query, memory) @ value
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    upstream = torch.randn_like(slow)
    left, right = (
        torch.autograd.grad(x, [query, key, value], upstream, retain_graph=True) for x in (fast, slow)
    )
    for got, want in zip(left, right, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=0)


def test_a_causal_memory_may_be_longer_than_the_queries() -> None:
    attention, query, key = Attention(Linear(2, 2)), torch.randn(1, 100, 2), torch.randn(1, 300, 2)
    memory = attention.remember(key, causal=True)
    torch.testing.assert_close(attention(query, memory), attention.weights(query, memory) @ key)


def test_no_matrix_of_pairs_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, (query, key, value) = Attention(Linear(4, 4)), _tensors(70)
    monkeypatch.setattr(Linear, "forward", lambda *a: pytest.fail("the scores were computed"))
    mask = lengths_mask(torch.tensor([70, 30]), 70)[:, None]
    assert attention(query, attention.remember(key, value, mask)).isfinite().all()


@pytest.mark.parametrize(
    ("queries", "keys", "causal"),
    [(1, 50, False), (8, 50, False), (40, 40, True), (300, 300, False), (600, 600, True)],
)
def test_the_form_with_fewer_multiplications_is_taken(queries: int, keys: int, causal: bool) -> None:
    """Of all pairs, as for a decoder's single query, and of sums; both give the same values and gradients."""
    size = 16
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.rand(count, size, dtype=torch.float64, generator=generator).requires_grad_()
        for count in (queries, keys, keys)
    )
    with FlopCounterMode(display=False) as counter:
        context = linear_attention(query, key, value, causal=causal)
    pairs = 2 * queries * keys * (size + size)
    sums = 2 * (queries + keys) * size * (size + 1) + causal * 2 * queries * linear.CHUNK * (size + size + 1)
    assert counter.get_total_flops() <= min(pairs, 1.1 * sums)  # chunks are padded

    kernel = query @ key.mT
    kernel = kernel.tril() if causal else kernel
    wanted = kernel @ value / kernel.sum(-1, keepdim=True)
    torch.testing.assert_close(context, wanted, atol=1e-12, rtol=0)
    upstream = torch.rand(queries, size, dtype=torch.float64, generator=generator)
    each = (torch.autograd.grad(x, [query, key, value], upstream) for x in (context, wanted))
    for got, want in zip(*each, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=0)


def test_the_recurrent_form_equals_the_parallel_one_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "CHUNK", 16)
    query, key, value = _tensors(70)
    query, key = query.exp(), key.exp()
    parallel = linear_attention(query, key, value, causal=True)
    state, steps = None, []
    for t in range(70):
        context, state = linear_step(query[..., t, :], key[..., t, :], value[..., t, :], state)
        steps.append(context)
        assert state.shape == (2, 3, 4, 6)  # whatever the length
    torch.testing.assert_close(torch.stack(steps, -2), parallel, atol=1e-11, rtol=1e-11)


def test_empty_rows_and_vanished_features_are_zero() -> None:
    attention, (query, key, value) = Attention(Linear(4, 4)), _tensors(5)
    mask = lengths_mask(torch.tensor([5, 0]), 5)[:, None]
    context = attention(query, attention.remember(key, value, mask))
    assert not context[1].any() and context[0].all()
    for gradient in torch.autograd.grad(context.sum(), [query, key, value]):
        assert gradient.isfinite().all() and not gradient[1].any()
    nothing = torch.full_like(query, -1e4)  # elu + 1 underflows
    memory = attention.remember(nothing, value)
    assert not attention(nothing, memory).any() and not attention.weights(nothing, memory).any()


@pytest.mark.parametrize("shift", [-80.0, -20.0, -8.0])
@pytest.mark.parametrize("causal", [False, True])
def test_small_features_are_as_exact_as_others(shift: float, causal: bool) -> None:
    attention, (query, key, value) = Attention(Linear(4, 4)), _tensors(9, torch.float32)
    memory = attention.remember(key + shift, value, causal=causal)
    kernel = torch.einsum("...qd,...kd->...qk", (query.double() + 2 * shift).exp(), memory.keys.double())
    weights = kernel.tril() if causal else kernel
    wanted = (weights / weights.sum(-1, keepdim=True)) @ value.double()
    found = attention(query + 2 * shift, memory)
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)
    gradients = [
        torch.autograd.grad(x.square().sum(), [query, value], retain_graph=True) for x in (found, wanted)
    ]
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close((key + shift).exp(), memory.keys, atol=0, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e15, 1e30])
def test_large_features_do_not_overflow(scale: float) -> None:
    attention, (query, key, value) = Attention(Linear(4, 4)), _tensors(9, torch.float32)
    query, key = (x.detach().abs() * scale for x in (query, key))
    kernel = query.double() @ key.double().mT
    wanted = (kernel / kernel.sum(-1, keepdim=True)) @ value.double()
    memory = attention.remember(key, value)
    for found in (attention(query, memory), attention.weights(query, memory) @ value):
        torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)


def test_what_comes_later_does_not_reach_back_by_rounding() -> None:
    query, key, value = (x.detach().float() for x in _tensors(128))
    key, query = key.exp(), query.exp()
    before = linear_attention(query, key, value, causal=True)
    value[..., 100:, :] *= 1e7
    assert torch.equal(linear_attention(query, key, value, causal=True)[..., :100, :], before[..., :100, :])


def test_half_precision_does_not_overflow() -> None:
    query, key, value = (x.detach().exp() for x in _tensors(4000, torch.float32))
    value = value.log()
    wanted = linear_attention(query, key, value)
    found = linear_attention(query.half(), key.half(), value.half())
    torch.testing.assert_close(found.float(), wanted, atol=2e-3, rtol=2e-3)


def test_a_batch_without_examples() -> None:
    assert linear_attention(*torch.rand(3, 0, 2, 100, 8), causal=True).shape == (0, 2, 100, 8)


@pytest.mark.usefixtures("unchecked_shapes")
def test_compiled_code_asks_for_no_sizes_to_choose_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every answer the compiler would make another program."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    on_gpu: Any = SimpleNamespace(is_cuda=True)
    assert not linear_triton.usable(on_gpu, on_gpu)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("memory", [64 << 10, 99 << 10])
def test_wide_heads_in_float32_need_much_shared_memory(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Ampere; where a GPU has less, as on a T4, Triton would stop the backward pass."""
    for name, result in (("triton_works", True), ("has_values", True), ("shared_memory", memory)):
        monkeypatch.setattr(linear_triton, name, lambda *_, result=result: result)

    def usable(query: torch.dtype, value: torch.dtype, features: int = 64, size: int = 64) -> bool:
        sides = ((query, features), (value, size))
        tensors: list[Any] = [
            SimpleNamespace(
                is_cuda=True, dtype=dtype, shape=torch.Size([32, 100, width]), device=torch.device("cuda", 0)
            )
            for dtype, width in sides
        ]
        return linear_triton.usable(*tensors)

    enough = memory > 64 << 10
    assert usable(torch.float32, torch.float32) == enough
    assert usable(torch.float32, torch.float16, size=32) == enough
    assert usable(torch.bfloat16, torch.float32, features=16) == enough
    assert usable(torch.float32, torch.float32, 32, 32)
    assert usable(torch.bfloat16, torch.bfloat16) and usable(torch.float16, torch.float16)


def test_tensors_without_values_reach_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_triton, "triton_works", lambda: True)
    with FakeTensorMode():
        x = torch.rand(linear_triton.LEAST, 100, 8, device="cuda")
        assert linear_attention(x, x, x, causal=True).device.type == "cuda"
