"""`torch.func` and forward-mode differentiation, at sizes where a fast path of ours is taken."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Concat,
    Entmax15,
    Gaussian,
    Laplacian,
    Linear,
    MultiheadAttention,
    ScaledDot,
    Softmax,
    Sparsemax,
    lengths_mask,
)
from attention_lab.attention.fast.gaussian.regression import gaussian_reference, gaussian_regression

LENGTH, SIZE = 192, 16
MECHANISMS: dict[str, Callable[[], Attention]] = {
    "additive": lambda: Attention(Additive(SIZE, SIZE, hidden_size=16)),
    "concat": lambda: Attention(Concat(SIZE, SIZE, hidden_size=16)),
    "scaled dot": lambda: Attention(ScaledDot(SIZE, SIZE)),
    "linear": lambda: Attention(Linear(SIZE, SIZE)),
    "gaussian": lambda: Attention(Gaussian(SIZE, SIZE)),
    "laplacian": lambda: Attention(Laplacian(SIZE, SIZE)),
    "band": lambda: Attention(ScaledDot(SIZE, SIZE), window=Band(SIZE, width=4)),
    "sparsemax": lambda: Attention(ScaledDot(SIZE, SIZE), Sparsemax()),
    "entmax15": lambda: Attention(ScaledDot(SIZE, SIZE), Entmax15()),
}


def _inputs() -> list[Tensor]:
    return [torch.randn(3, LENGTH, SIZE, dtype=torch.float64) for _ in range(3)]


@pytest.fixture(params=MECHANISMS)
def attend(request: pytest.FixtureRequest) -> Callable[..., Tensor]:
    """Context for query, key and value."""
    attention = MECHANISMS[request.param]().double().requires_grad_(False)

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context: Tensor = attention(query, attention.remember(key, value))
        return context

    return function


def test_gradients(attend: Callable[..., Tensor]) -> None:
    inputs = _inputs()
    leaves = [x.clone().requires_grad_() for x in inputs]
    wanted = torch.autograd.grad(attend(*leaves).square().sum(), leaves)
    found = torch.func.grad(lambda *xs: attend(*xs).square().sum(), argnums=(0, 1, 2))(*inputs)
    for got, want in zip(found, wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of PyTorch's fused kernel
def test_a_map_over_examples(attend: Callable[..., Tensor]) -> None:
    inputs = _inputs()
    assert torch.allclose(torch.func.vmap(attend)(*inputs), attend(*inputs), rtol=1e-9, atol=1e-10)


def test_a_map_over_learned_biases() -> None:
    """As in an ensemble: its gradient comes from outside the map."""
    attention = Attention(ScaledDot(4, 4)).double()
    query, key = torch.randn(3, 2, 5, 4, dtype=torch.float64), torch.randn(3, 2, 6, 4, dtype=torch.float64)
    bias = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)

    def attend(query: Tensor, key: Tensor, bias: Tensor) -> Tensor:
        return attention(query, attention.remember(key), bias=bias)  # type: ignore[no-any-return]

    mapped = torch.func.vmap(attend)(query, key, bias)
    each = torch.stack([attend(*one) for one in zip(query, key, bias, strict=True)])
    assert torch.allclose(mapped, each, atol=1e-12)
    found, wanted = (torch.autograd.grad(context.sin().sum(), bias)[0] for context in (mapped, each))
    assert torch.allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("learned", ["bias", "temperature"])
def test_a_learned_part_outside_the_function(learned: str) -> None:
    """The gradient of the queries, where the bias on the scores requires one outside of `torch.func.grad`."""
    temperature = nn.Parameter(torch.tensor(1.5, dtype=torch.float64)) if learned == "temperature" else 1.0
    attention = Attention(ScaledDot(4, 4), Softmax(temperature)).double()
    query, key = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(3, 6, 4, dtype=torch.float64)
    bias = torch.randn(5, 6, dtype=torch.float64, requires_grad=learned == "bias")

    def loss(query: Tensor) -> Tensor:
        return attention(query, attention.remember(key), bias=2 * bias).square().sum()  # type: ignore[no-any-return]

    leaf = query.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(leaf), leaf)
    assert torch.allclose(torch.func.grad(loss)(query), wanted, atol=1e-12)


def _agree(
    tangent: Tensor, function: Callable[..., Tensor], inputs: list[Tensor], along: list[Tensor]
) -> bool:
    """Whether `u . (J d) = (J^T u) . d`, by forward mode on the left and by backward mode on the right."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    context = function(*leaves)
    upstream = torch.randn_like(context)
    gradients = torch.autograd.grad(context, leaves, upstream)
    backwards = sum((g * d).sum() for g, d in zip(gradients, along, strict=True))
    return torch.allclose((tangent * upstream).sum(), torch.as_tensor(backwards), rtol=1e-9, atol=1e-8)


def _forward(function: Callable[..., Any], inputs: list[Tensor], along: list[Tensor], by: str) -> Tensor:
    """The derivative along a direction, by forward-mode differentiation."""
    if by == "jvp":
        slope: Tensor = torch.func.jvp(function, tuple(inputs), tuple(along))[1]
        return slope
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, d) for x, d in zip(inputs, along, strict=True)]
        tangent = forward_ad.unpack_dual(function(*duals)).tangent
    assert tangent is not None
    return tangent


FORWARD = pytest.mark.parametrize("by", ["jvp", "dual numbers"])


@pytest.mark.sampled(2, rest="long")
@FORWARD
def test_a_derivative_along_a_direction(attend: Callable[..., Tensor], by: str) -> None:
    inputs, along = _inputs(), _inputs()
    found = _forward(attend, inputs, along, by)
    assert _agree(found, attend, inputs, along)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_several_gradients_at_once(attend: Callable[..., Tensor]) -> None:
    """As a vectorised Jacobian computes them: only the backward pass runs for several gradients at once."""
    leaves = [x.requires_grad_() for x in _inputs()]
    context = attend(*leaves)
    upstream = torch.randn(2, *context.shape, dtype=torch.float64)
    found = torch.autograd.grad(context, leaves, upstream, retain_graph=True, is_grads_batched=True)
    for number, one in enumerate(upstream):
        wanted = torch.autograd.grad(context, leaves, one, retain_graph=True)
        for got, want in zip(found, wanted, strict=True):
            assert torch.allclose(got[number], want, rtol=1e-9, atol=1e-10)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_graph_of_operators_holds_for_other_masks(name: str) -> None:
    attention = MECHANISMS[name]().double()
    query, key, value = _inputs()

    def attend(query: Tensor, mask: Tensor) -> Tensor:
        return attention(query, attention.remember(key, value, mask))  # type: ignore[no-any-return]

    mask = lengths_mask(torch.tensor([LENGTH, 70, 0]), LENGTH)
    traced = make_fx(attend)(query, torch.ones_like(mask))
    assert torch.allclose(traced(query, mask), attend(query, mask), rtol=1e-9, atol=1e-10)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # from PyTorch itself
def test_a_linearised_function() -> None:
    attention = MECHANISMS["additive"]().double().requires_grad_(False)
    query, key, along = _inputs()
    mask = lengths_mask(torch.tensor([LENGTH, 70, 0]), LENGTH)

    def attend(query: Tensor) -> Tensor:
        return attention(query, attention.remember(key, mask=mask))  # type: ignore[no-any-return]

    context, slope = torch.func.linearize(attend, query)
    assert torch.allclose(context, attend(query), rtol=1e-9, atol=1e-10)
    assert _agree(slope(along), attend, [query], [along])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # from the compiler
def test_a_compiled_derivative_along_a_direction() -> None:
    """Of an operator of our own, compiled code would take the derivative for zero."""
    attention = MECHANISMS["additive"]().double()
    query, key, along = _inputs()

    def attend(query: Tensor) -> Tensor:
        return attention(query, attention.remember(key))  # type: ignore[no-any-return]

    slope = torch.compile(lambda x, d: torch.func.jvp(attend, (x,), (d,))[1], backend="aot_eager")
    assert _agree(slope(query, along), attend, [query], [along])


def _samples() -> list[Tensor]:
    return [*(torch.rand(600, 1, dtype=torch.float64) for _ in range(3)), torch.tensor([3.0]).double()]


def _regression(query: Tensor, keys: Tensor, values: Tensor, width: Tensor) -> Tensor:
    weights = torch.linspace(0.2, 1.0, 600, dtype=torch.float64)
    context: Tensor = gaussian_regression(query, keys, values, width, torch.arange(600), weights=weights)
    return context


def test_gradients_of_kernel_regression() -> None:
    samples = _samples()
    leaves = [x.clone().requires_grad_() for x in samples]
    wanted = torch.autograd.grad(_regression(*leaves).square().sum(), leaves)
    found = torch.func.grad(lambda *xs: _regression(*xs).square().sum(), argnums=(0, 1, 2, 3))(*samples)
    for got, want in zip(found, wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-8, atol=1e-9)
    many = torch.stack([samples[3], 2 * samples[3]])
    mapped = torch.func.vmap(lambda width: _regression(*samples[:3], width))(many)
    assert torch.allclose(mapped[1], _regression(*samples[:3], many[1]), rtol=1e-9)


@FORWARD
def test_a_derivative_of_kernel_regression_along_a_direction(by: str) -> None:
    samples, along = _samples(), _samples()
    found = _forward(_regression, samples, along, by)
    assert _agree(found, _regression, samples, along)


def test_the_reference_weighs_samples() -> None:
    query, keys, values, width = _samples()
    weights = torch.linspace(0.2, 1.0, 600, dtype=torch.float64)
    kernels = torch.exp(-0.5 * ((query - keys.mT) * width).square()) * weights
    wanted = kernels @ values / kernels.sum(-1, keepdim=True)
    found = gaussian_reference(query, keys, values, width, weights=weights)
    assert torch.allclose(found, wanted, rtol=1e-9)


@pytest.mark.long
def test_an_export_with_masks_takes_other_sizes(unchecked_shapes: None) -> None:
    module = MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True).eval()
    inputs, ignored = torch.randn(3, 4, 5, 8), torch.zeros(4, 5, dtype=torch.bool)
    ignored[:, 3] = True
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    sizes = {name: {0: batch, 1: length} for name in ("query", "key", "value", "key_padding_mask")}
    exported = torch.export.export(
        module, tuple(inputs), {"key_padding_mask": ignored}, dynamic_shapes=sizes
    ).module()
    fewer, also = tuple(inputs[:, :2, :4]), ignored[:2, :4]
    found, wanted = exported(*fewer, key_padding_mask=also), module(*fewer, key_padding_mask=also)
    assert torch.allclose(found[0], wanted[0], atol=1e-6) and torch.allclose(found[1], wanted[1], atol=1e-6)


def test_code_with_symbols_for_sizes_takes_other_sizes(unchecked_shapes: None) -> None:
    class Chosen(nn.Module):
        def forward(self, query: Tensor, key: Tensor, index: Tensor) -> Tensor:
            return attention(query, attention.remember(key).select(index))

    def inputs(batch: int, keys: int) -> tuple[Tensor, ...]:
        return torch.randn(batch, 3, SIZE), torch.randn(batch, keys, SIZE), torch.arange(batch).flip(0)

    attention, batch = MECHANISMS["scaled dot"](), torch.export.Dim("batch")
    sizes = {"query": {0: batch}, "key": {0: batch, 1: torch.export.Dim("keys")}, "index": {0: batch}}
    exported = torch.export.export(Chosen(), inputs(3, 5), dynamic_shapes=sizes, strict=False).module()
    traced = make_fx(Chosen(), tracing_mode="symbolic")(*inputs(3, 5))
    other = inputs(2, 7)
    for program in (exported, traced):
        torch.testing.assert_close(program(*other), Chosen()(*other))
