"""The masked softmax: values by hand, and what holds for any scores and masks."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from counted_operators import Operators
from hypothesis import given
from hypothesis import strategies as st
from mechanisms import NORMALIZERS
from torch import nn

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Boxcar,
    Dot,
    Entmax15,
    Epanechnikov,
    Global,
    Mechanism,
    ScaledDot,
    Score,
    Sigmoid,
    SinkSoftmax,
    Softmax,
    Sparsemax,
    masked_softmax,
)
from attention_lab.errors import LabError


def test_values_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(3.0), 7.0]])
    mask = torch.tensor([[True, True, False]])
    assert torch.allclose(masked_softmax(scores, mask), torch.tensor([[0.25, 0.75, 0.0]]))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid])
def test_a_mask_that_does_not_fit(normalizer: type[nn.Module]) -> None:
    scores = torch.zeros(2, 3, 4)
    with pytest.raises(
        ValueError, match=r"must be boolean \(True = attend\), got torch.float32: give mask.bool"
    ):
        normalizer()(scores, torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match=r"mask \[2, 4\] .* scores \[2, 3, 4\]: .* mask\.unsqueeze\(1\)"):
        normalizer()(scores, torch.ones(2, 4) > 0)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid])
def test_scores_and_masks_are_tensors(normalizer: type[nn.Module]) -> None:
    """Weights of whole numbers would all be 0."""
    for dtype in (torch.long, torch.bool):
        with pytest.raises(
            ValueError, match=rf"^scores must be floating-point, got {dtype}: give scores\.float"
        ):
            normalizer()(torch.ones(3, 4, dtype=dtype))
    with pytest.raises(TypeError, match=r"^scores must be a tensor, not a ndarray$"):
        normalizer()(np.ones((3, 4)))
    with pytest.raises(TypeError, match=r"^a mask must be a boolean tensor \(True = attend\), not a list$"):
        normalizer()(torch.ones(1, 2), [[True, False]])


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, "2"])
def test_a_temperature_is_above_zero(temperature: Any) -> None:
    with pytest.raises(LabError, match=r"^temperature must be (above 0, got|a number, not)"):
        masked_softmax(torch.ones(3, 4), temperature=temperature)


def test_a_larger_temperature_is_flatter() -> None:
    scores = torch.tensor([[0.0, 2.0 * math.log(3.0)]])
    assert torch.allclose(masked_softmax(scores, temperature=2.0), torch.tensor([[0.25, 0.75]]))
    entropies = [
        torch.special.entr(masked_softmax(scores, temperature=t)).sum() for t in (0.5, 1.0, 2.0, 8.0)
    ]
    assert entropies == sorted(entropies)


def test_a_row_without_a_key_is_zero_in_value_and_gradient() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, False, True]])
    weights = masked_softmax(scores, mask)
    assert weights[0].tolist() == [0.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad((weights * torch.arange(6.0).view(2, 3)).sum(), scores)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert gradient.isfinite().all() and gradient[1, 0] != 0 and gradient[1, 1] == 0


@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid])
def test_no_gradient_is_nan_on_the_way(normalizer: type[nn.Module]) -> None:
    """Not even of what is left out later: PyTorch's detection of anomalies would stop the training."""
    scores = torch.randn(3, 4, requires_grad=True)
    mask = torch.tensor([[True] * 4, [False] * 4, [True, False, False, True]])
    with torch.autograd.set_detect_anomaly(True):
        normalizer()(scores, mask).square().sum().backward()


def test_minus_infinity_counts_as_masked() -> None:
    scores = torch.tensor([[-torch.inf, -torch.inf], [-torch.inf, 3.0]], requires_grad=True)
    weights = masked_softmax(scores)
    assert weights.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    (gradient,) = torch.autograd.grad(weights.sum(), scores)
    assert gradient.isfinite().all()


@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 10.0), st.floats(-300, 300)
)
def test_rows_are_distributions_and_a_shift_changes_nothing(
    seed: int, queries: int, keys: int, temperature: float, shift: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, keys, generator=generator, dtype=torch.float64) * 5
    mask = torch.rand(queries, keys, generator=generator) > 0.5
    weights = masked_softmax(scores, mask, temperature)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    assert torch.allclose(weights.sum(-1), mask.any(-1).double())
    assert torch.allclose(masked_softmax(scores + shift, mask, temperature), weights, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("normalizer", [Softmax, SinkSoftmax, Sigmoid, Sparsemax, Entmax15])
def test_weights_have_the_type_of_the_scores(normalizer: type[nn.Module], dtype: torch.dtype) -> None:
    scores, mask = torch.randn(2, 3, 4, dtype=dtype), torch.tensor([True, True, False, True])
    for module in (normalizer(), normalizer(temperature=2.0)):
        assert module(scores).dtype == module(scores, mask).dtype == dtype


def test_half_precision_neither_overflows_nor_changes_type() -> None:
    scores = torch.tensor([[6e4, 6e4, -6e4]], dtype=torch.float16)
    weights = masked_softmax(scores, torch.tensor([[True, True, True]]))
    assert weights.dtype == torch.float16 and weights.tolist() == [[0.5, 0.5, 0.0]]
    small = torch.tensor([[600.0, 600.0, -600.0]], dtype=torch.float16)
    for temperature in (0.001, torch.tensor(0.001)):  # a number of dimension 0 does not promote
        assert masked_softmax(small, temperature=temperature).tolist() == [[0.5, 0.5, 0.0]]


SPARSE = pytest.mark.parametrize(("normalizer", "power"), [(Sparsemax(), 1), (Entmax15(), 2)])


def _by_bisection(scores: torch.Tensor, power: int) -> torch.Tensor:
    """`(s_i / power - tau)_+^power`, with tau such that each row sums to one."""
    scores = scores.double() / power
    low, high = scores.amax(-1, keepdim=True) - 1, scores.amax(-1, keepdim=True)
    for _ in range(100):
        tau = (low + high) / 2
        above = (scores - tau).clamp_min(0).pow(power).sum(-1, keepdim=True) > 1
        low, high = tau.where(above, low), high.where(above, tau)
    return (scores - high).clamp_min(0).pow(power)


@SPARSE
@pytest.mark.parametrize("size", [1, 2, 7, 3000])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 300.0])
def test_sparse_weights_equal_those_found_by_bisection(
    normalizer: torch.nn.Module, power: int, size: int, spread: float
) -> None:
    scores = torch.randn(5, size) * spread + 7
    assert (normalizer(scores, None) - _by_bisection(scores, power)).abs().max() < 1e-5
    tied = scores.round()
    assert (normalizer(tied, None) - _by_bisection(tied, power)).abs().max() < 1e-5


@SPARSE
def test_sparse_weights_of_extreme_scores(normalizer: torch.nn.Module, power: int) -> None:
    scores = torch.tensor([[1e30, -1e30, 1e30], [-3e38, 3e38, 0.0], [-torch.inf, -1e30, 1.0]])
    scores.requires_grad_()
    weights = normalizer(scores, None)
    assert torch.allclose(weights, torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert gradient.isfinite().all()
    assert normalizer(torch.tensor([[1.0, torch.nan, 0.0]]), None).isnan().any()


@SPARSE
def test_sparse_weights_have_first_and_second_derivatives(normalizer: torch.nn.Module, power: int) -> None:
    scores = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, 6) > 0.3
    mask[0] = False
    assert torch.autograd.gradcheck(lambda x: normalizer(x, mask), scores, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: normalizer(x, mask), scores)


@SPARSE
def test_sparse_weights_compile_as_one_graph(
    normalizer: torch.nn.Module, power: int, unchecked_shapes: None
) -> None:
    scores = torch.randn(3, 6, requires_grad=True)
    compiled = torch.compile(normalizer, backend="aot_eager", fullgraph=True)
    weights = compiled(scores, None)
    assert torch.allclose(weights, normalizer(scores, None))
    weights.square().sum().backward()


@pytest.mark.parametrize("score", [Dot, Additive, Boxcar, Epanechnikov])
def test_keys_without_weight_do_not_change_the_gradient_of_a_temperature(score: type[Score]) -> None:
    """Those at a score of -inf, by a bias or outside the support of a kernel."""
    query, key = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(2, 6, 3, dtype=torch.float64)
    temperature = nn.Parameter(torch.tensor(1.3, dtype=torch.float64))
    attention = Attention(score(3, 3), Softmax(temperature)).double()
    bias = torch.zeros(4, 6, dtype=torch.float64)
    bias[0] = bias[1, 2] = -torch.inf
    scores = attention.score(query, attention.score.keys(key)) + bias
    mask, memory = scores > -torch.inf, attention.remember(key)
    wanted = masked_softmax(scores.masked_fill(~mask, 0.0), mask, temperature) @ key
    found = attention(query, memory, bias=bias)
    assert torch.allclose(found, wanted)
    assert torch.allclose(
        *(torch.autograd.grad(context.square().sum(), temperature)[0] for context in (found, wanted))
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_must_be_positive(temperature: float) -> None:
    with pytest.raises(LabError, match=r"normalizer\.temperature must be above 0"):
        Softmax(temperature)


def test_weights_with_a_sink_by_hand() -> None:
    scores = torch.tensor([[math.log(2.0), math.log(3.0), 7.0], [1.0, 2.0, 3.0]])
    mask = torch.tensor([[True, True, False], [False, False, False]])
    off_by_one = SinkSoftmax(learnable=False)
    assert torch.allclose(off_by_one(scores, mask), torch.tensor([[2 / 6, 3 / 6, 0], [0, 0, 0]]))
    assert not list(off_by_one.buffers()) and not off_by_one.sink.requires_grad
    per_head = SinkSoftmax(temperature=0.5, heads=2)
    per_head.sink.data = torch.tensor([math.log(5.0), 1e4]).view(2, 1, 1)
    expected = torch.tensor([[4 / 18, 9 / 18, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(per_head(scores.expand(2, 2, 3), mask), torch.stack([expected, 0 * expected]))
    assert per_head(1e4 + torch.zeros(2, 1, 1), None).flatten().tolist() == [1.0, 1.0]


def test_a_sink_takes_weight_on_every_path_with_masks_and_biases_that_broadcast() -> None:
    attention = Mechanism(ScaledDot, SinkSoftmax)(4, 4, heads=2).double()
    assert attention.normalizer.sink.shape == (2, 1, 1)
    attention.normalizer.sink.data = torch.tensor([0.5, -1.0]).view(2, 1, 1).double()
    query, key = torch.randn(3, 2, 5, 4).double(), torch.randn(3, 2, 5, 4).double()
    mask, bias = torch.tensor([True, False, True]).view(3, 1, 1, 1), torch.randn(5, 1).double()
    for options in ({}, {"causal": True}, {"mask": mask}, {"mask": mask, "causal": True}):
        memory = attention.remember(key, **options)
        for added in (None, bias):
            weights = attention.weights(query, memory, bias=added)
            assert torch.allclose(attention(query, memory, bias=added), weights @ key)
            assert (weights.sum(-1) < 1).all()


@pytest.mark.parametrize("leading", [(), (3, 1)])
def test_each_head_has_its_sink_where_all_share_queries_and_keys(leading: tuple[int, ...]) -> None:
    """On the fused path and by the plain formula, as if each head had a copy of them."""
    query, key = torch.randn(*leading, 5, 4), torch.randn(*leading, 7, 4)
    queries, keys = (x.expand(*leading[:1], 2, -1, -1) for x in (query, key))
    for window in (Global(4), Band(4, width=3, falloff="gaussian")):
        attention = Attention(ScaledDot(4, 4), SinkSoftmax(heads=2), window=window)
        torch.nn.init.normal_(attention.normalizer.sink)  # type: ignore[arg-type]
        expected = attention.weights(queries, attention.remember(keys))
        memory = attention.remember(key)
        torch.testing.assert_close(attention.weights(query, memory), expected)
        torch.testing.assert_close(attention(query, memory), expected @ keys)


def test_scores_are_copied_for_empty_rows_only_where_there_are_some() -> None:
    scores, mask = torch.randn(2, 3, 4, requires_grad=True), torch.ones(2, 1, 4, dtype=torch.bool)
    mask[0, :, 2:] = False
    with Operators() as operators:
        weights = masked_softmax(scores, mask)
        weights.square().sum().backward()
    assert operators.calls["masked_fill"] == 2  # for the mask, and for its gradient
    assert torch.allclose(weights, scores.masked_fill(~mask, -math.inf).softmax(-1))
    with Operators() as operators:
        masked_softmax(scores)
    assert not operators.calls["masked_fill"]
    mask[1] = False
    assert torch.equal(masked_softmax(scores, mask)[0], weights[0])
    assert not masked_softmax(scores, mask)[1].any()


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
def test_without_keys_the_weights_still_have_the_shape_of_scores_mask_and_temperature(name: str) -> None:
    scores, mask = torch.randn(4, 0).half(), torch.ones(3, 1, 1, 0, dtype=torch.bool)
    weights = NORMALIZERS[name](temperature=nn.Parameter(torch.ones(2, 1, 1)))(scores, mask)
    assert weights.shape == (3, 2, 4, 0) and weights.dtype == scores.dtype


@pytest.mark.parametrize("scale", [0.0, 0.3, 5.0, 30.0])
@pytest.mark.parametrize("kind", [Sparsemax, Entmax15])
def test_only_keys_that_may_have_a_weight_are_sorted(kind: type[nn.Module], scale: float) -> None:
    scores, mask = torch.randn(2, 5, 40) * scale, torch.rand(2, 5, 40) > 0.2
    with Operators() as operators:
        weights = kind()(scores, mask)
    assert operators.calls["topk"] + operators.calls["sort"] == 1
    assert bool(operators.calls["topk"]) == (scale > 0.3)
    assert torch.equal(torch.vmap(kind())(scores, mask), weights)  # which sorts all
