"""A subclass that overrides the formula of a part gets its own formula on every path."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Dot,
    Gaussian,
    Global,
    Linear,
    Mechanism,
    ScaledDot,
    Score,
    Soft,
    Softmax,
)
from attention_lab.attention.fast.dispatch import fast_path
from attention_lab.attention.memory import Call
from attention_lab.attention.windows import Span, Window
from attention_lab.models import KernelRegression
from attention_lab.sizes import RegressionSizes

LENGTH, SIZE = 256, 4


class Sharper(ScaledDot):
    """Overrides the score and inherits its features."""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return 5 * super().forward(query, keys)


class SharperGaussian(Gaussian):
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return 5 * super().forward(query, keys)


class SharperLinear(Linear):
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return 5 * super().forward(query, keys)


class SquaredSoftmax(Softmax):
    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(scores, mask).square()


class Doubled(Soft):
    def forward(self, weights: Tensor, value: Tensor) -> Tensor:
        return 2 * super().forward(weights, value)


class FirstKeys(Global):
    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        return Span(torch.arange(keys) < 3)


class ForwardBand(Band):
    def forward(self, query: Tensor, keys: int, visible: Tensor | None, offset: int) -> Span:
        span = super().forward(query, keys, visible, offset)
        mask = span.mask & (torch.arange(keys) >= torch.arange(query.shape[-2])[:, None])
        return span._replace(mask=mask)


NARROW = partial(Band, width=2)
CHANGED = [
    Mechanism(Sharper),
    Mechanism(Sharper, window=NARROW),
    Mechanism(SharperGaussian),
    Mechanism(SharperLinear),
    Mechanism(ScaledDot, SquaredSoftmax),
    Mechanism(Linear, SquaredSoftmax),
    Mechanism(ScaledDot, pooling=Doubled),
    Mechanism(ScaledDot, window=FirstKeys),
    Mechanism(Linear, window=FirstKeys),
    Mechanism(ScaledDot, window=partial(ForwardBand, width=2)),
    Mechanism(Additive, window=partial(ForwardBand, width=2)),
]


def _plain(attention: Attention, x: Tensor, **options: Any) -> Tensor:
    """The formula, step by step."""
    memory = attention.remember(x, **options)
    span = Call(attention.window, x, memory).span
    weights = attention.normalizer(attention.score(x, memory.keys), span.mask)
    return attention.pooling(weights, memory.value)  # type: ignore[no-any-return]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mechanism", CHANGED)
def test_an_overridden_formula_is_used(mechanism: Mechanism, causal: bool) -> None:
    attention = mechanism(SIZE, SIZE)
    x = torch.randn(1, LENGTH, SIZE, generator=torch.Generator().manual_seed(0))
    context = attention(x, attention.remember(x, causal=causal))
    assert torch.allclose(context, _plain(attention, x, causal=causal), atol=1e-5)


def test_an_overridden_call_is_used() -> None:
    class Tripled(Soft):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return 3 * super().__call__(*args, **kwargs)

    x = torch.randn(2, 5, SIZE)
    plain, tripled = Attention(Dot(SIZE, SIZE)), Attention(Dot(SIZE, SIZE), pooling=Tripled())
    assert torch.allclose(tripled(x, tripled.remember(x)), 3 * plain(x, plain.remember(x)))


def test_an_overridden_step_of_the_attention_is_used() -> None:
    class Halved(Attention):
        def weigh(self, *args: Any) -> Tensor:
            return super().weigh(*args) / 2

    x = torch.randn(2, 5, SIZE)
    halved, whole = Halved(ScaledDot(SIZE, SIZE)), Attention(ScaledDot(SIZE, SIZE))
    assert torch.allclose(halved(x, halved.remember(x)) * 2, whole(x, whole.remember(x)), atol=1e-6)


def test_kernel_regression_uses_an_overridden_formula() -> None:
    sizes = RegressionSizes(features=1, targets=1, samples=20)
    x = torch.linspace(0, 1, 20)[:, None]
    for mechanism in (Mechanism(Gaussian, SquaredSoftmax), Mechanism(Gaussian, pooling=Doubled)):
        model = KernelRegression(mechanism, sizes)
        model.memorize(x, x.sin())
        assert torch.allclose(model(x), model.attend_to_all(x), atol=1e-5)


def test_features_defined_beside_or_below_the_formula_are_used() -> None:
    class Both(ScaledDot):
        def forward(self, query: Tensor, keys: Tensor) -> Tensor:
            return 2 * super().forward(query, keys)

        def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return 2 * query / 2, keys

    class Below(Both):
        def keys(self, key: Tensor) -> Tensor:
            return key * 3

    x = torch.randn(2, 5, SIZE)
    for score in (Both, Below):
        attention = Attention(score(SIZE, SIZE))
        path = fast_path(attention, Call(attention.window, x, attention.remember(x)))
        assert path is not None and path.name == "fused"


def test_a_normaliser_needs_only_a_forward() -> None:
    class Relu(nn.Module):
        """Its own `scale`, of the class, is not the factor of a softmax."""

        scale = 0.5

        def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
            weights = (scores * self.scale).relu()
            return weights if mask is None else weights.masked_fill(~mask, 0.0)

    x = torch.randn(2, 5, SIZE)
    attention = Attention(ScaledDot(SIZE, SIZE), Relu())
    expected = (x @ x.mT / SIZE**0.5 / 2).relu() @ x
    assert torch.allclose(attention(x, attention.remember(x)), expected, atol=1e-6)


@pytest.mark.parametrize("falloff", ["none", "gaussian"])
@pytest.mark.parametrize("temperature", [1.0, torch.rand(LENGTH) + 1, torch.rand(LENGTH, 1) + 1])
def test_a_normaliser_that_counts_the_keys_gets_all_of_them(
    falloff: str, temperature: float | Tensor
) -> None:
    class Share(Softmax):
        def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(scores, mask) / scores.shape[-1]

    kind = Softmax if isinstance(temperature, Tensor) else Share
    window, x = Band(SIZE, width=2, falloff=falloff), torch.randn(LENGTH, SIZE)
    attention = Attention(Additive(SIZE, SIZE), kind(temperature), window=window)
    memory = attention.remember(x)
    assert torch.allclose(attention(x, memory), attention.weights(x, memory) @ x, atol=1e-6)


def test_a_softmax_may_have_a_scale_of_its_own() -> None:
    class Scaled(Softmax):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(3.0))

        def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(self.scale * scores, mask)

    x = torch.randn(2, 5, SIZE)
    attention = Attention(Dot(SIZE, SIZE), Scaled())
    expected = torch.softmax(3 * x @ x.mT, -1) @ x
    assert torch.allclose(attention(x, attention.remember(x)), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (2, 1, 1), (3, 1, 1, 1)])
@pytest.mark.parametrize("window", [Global(SIZE), Band(SIZE, width=2)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_learned_temperature(shape: tuple[int, ...], window: Window, biased: bool) -> None:
    x = torch.randn(3, 2, 256, SIZE, dtype=torch.float64, requires_grad=True)
    temperature = nn.Parameter(torch.rand(shape, dtype=torch.float64) + 0.5)
    bias = torch.randn(2, 256, 256, dtype=torch.float64, requires_grad=True) if biased else None
    attention = Attention(Dot(SIZE, SIZE), Softmax(temperature), None, window)
    memory = attention.remember(x)
    assert fast_path(attention, Call(window, x, memory, bias=bias)) is not None
    context = attention(x, memory, bias=bias)
    expected = attention.weights(x, memory, bias=bias) @ x
    assert torch.allclose(context, expected)
    leaves = [x, temperature, *([] if bias is None else [bias])]
    found, wanted = (torch.autograd.grad(one.square().sum(), leaves) for one in (context, expected))
    assert all(torch.allclose(*pair) for pair in zip(found, wanted, strict=True))


def test_a_temperature_for_each_key_needs_all_scores() -> None:
    x, temperature = torch.randn(2, 5, SIZE), nn.Parameter(torch.rand(5) + 0.5)
    attention = Attention(Dot(SIZE, SIZE), Softmax(temperature))
    expected = torch.softmax(x @ x.mT / temperature, -1) @ x
    assert torch.allclose(attention(x, attention.remember(x)), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_learned_temperature_in_half_precision(dtype: torch.dtype) -> None:
    x, temperature = torch.randn(2, 5, SIZE, dtype=dtype), nn.Parameter(torch.tensor([2.0]))
    attention = Attention(Dot(SIZE, SIZE), Softmax(temperature))
    context = attention(x, attention.remember(x))
    wanted = torch.softmax(x.double() @ x.double().mT / 2, -1) @ x.double()
    assert context.dtype == dtype
    assert torch.allclose(context.double(), wanted, atol=3e-2)


def test_a_learned_temperature_of_one_has_a_gradient_in_linear_attention() -> None:
    x, temperature = torch.randn(2, 5, SIZE), nn.Parameter(torch.tensor(1.0))
    attention = Attention(Linear(SIZE, SIZE), Softmax(temperature))
    attention(x, attention.remember(x)).square().sum().backward()
    assert temperature.grad is not None


@pytest.mark.parametrize("part", ["score", "normalizer", "pooling", "window"])
def test_hooks_of_a_part_are_called(part: str) -> None:
    attention, x, calls = Attention(Dot(SIZE, SIZE)), torch.randn(2, 5, SIZE), list[None]()
    handle = getattr(attention, part).register_forward_hook(lambda *_: calls.append(None))
    attention(x, attention.remember(x))
    assert calls == [None]
    handle.remove()
    call = Call(attention.window, x, attention.remember(x))
    assert fast_path(attention, call) is not None


def test_a_replaced_forward_is_used() -> None:
    attention, x = Attention(Dot(SIZE, SIZE)), torch.randn(2, 5, SIZE)
    attention.score.forward = lambda query, keys: torch.zeros(2, 5, 5)  # type: ignore[method-assign]
    assert torch.allclose(
        attention(x, attention.remember(x)), x.mean(1, keepdim=True).expand_as(x), atol=1e-6
    )


@pytest.mark.parametrize("step", ["weigh", "pool"])
def test_a_step_replaced_on_one_attention_is_used(step: str) -> None:
    attention, query, key = Attention(Dot(4, 4)), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    before, method = attention(query, attention.remember(key)), getattr(attention, step)
    setattr(attention, step, lambda *args: 2 * method(*args))
    assert torch.allclose(attention(query, attention.remember(key)), 2 * before, atol=1e-6)


def test_a_dropout_of_another_kind_is_used() -> None:
    class Doubled(nn.Module):
        p = 0.0

        def forward(self, weights: Tensor) -> Tensor:
            return 2 * weights

    attention, query, key = Attention(Dot(4, 4)), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    before = attention(query, attention.remember(key))
    attention.dropout = Doubled()  # type: ignore[assignment]
    assert torch.allclose(attention(query, attention.remember(key)), 2 * before)


def test_backward_hooks_of_a_score_are_called() -> None:
    attention, query = Attention(Dot(4, 4)), torch.randn(2, 3, 4, requires_grad=True)
    seen = []
    attention.score.register_full_backward_hook(lambda *given: seen.append(given))
    attention(query, attention.remember(torch.randn(2, 5, 4))).sum().backward()
    assert len(seen) == 1


def test_features_of_different_sizes_are_rejected() -> None:
    class Cut(Score):
        def features(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
            return query[..., :2], keys

    x = torch.randn(2, 5, SIZE)
    attention = Attention(Cut(SIZE, SIZE))
    with pytest.raises(ValueError, match=r"Cut.features .* same size, not \[2, 5, 2\] and \[2, 5, 4\]"):
        attention(x, attention.remember(x))
