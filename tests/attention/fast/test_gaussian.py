"""Gaussian kernel regression by every fast method: the formula's values and gradients, in memory O(n)."""

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.attention.fast.gaussian import cells, pairs, regression
from attention_lab.attention.fast.gaussian.cells import cell_moments, nodes_for
from attention_lab.attention.fast.gaussian.pairs import Problem, far_moments, pair_moments
from attention_lab.attention.fast.gaussian.regression import gaussian_reference, gaussian_regression
from attention_lab.attention.fast.gaussian.sorted_keys import near_moments, sorted_moments


def _run(
    function: Any, tensors: list[Tensor], index: Tensor | None, dtype: torch.dtype, **options: Any
) -> list[Tensor]:
    """The context, and a gradient by queries, keys, values and width, or by the width alone."""
    leaves = [x.detach().to(dtype).requires_grad_(x.requires_grad) for x in tensors]
    context = function(*leaves, index, **options)
    upstream = torch.sin(torch.arange(context.numel(), dtype=dtype)).view_as(context)
    wanted = [x for x in leaves if x.requires_grad]
    return [context.detach().double(), *(x.double() for x in torch.autograd.grad(context, wanted, upstream))]


def _compare(
    tensors: list[Tensor], index: Tensor | None, dtype: torch.dtype, error: float, **options: Any
) -> None:
    """Fast in `dtype` against the formula in float64; by log w where w is, as that has the unit of f."""
    tensors = [x.detach().to(dtype).double().requires_grad_(x.requires_grad) for x in tensors]
    found = _run(gaussian_regression, tensors, index, dtype, **options)
    wanted = _run(gaussian_reference, tensors, index, torch.float64)
    query, keys, values, width = (x.detach() for x in tensors)
    # The formula itself loses the exponent's own rounding: that of the nearest key that is not left out.
    nearest = torch.cdist(query * width, keys * width, compute_mode="donot_use_mm_for_euclid_dist")
    error += 1e-15 * float(nearest.topk(min(2, len(keys)), largest=False).values.square().sum())
    unit = float((values - values.mean(0)).abs().max()) + 1e-30
    scale = max(1.0, float(width.abs().max())) * unit * max(len(query), 1)
    assert ((found[0] - wanted[0]).abs() <= error * (unit + values.abs().max())).all()
    for got, want in zip(found[1:-1], wanted[1:-1], strict=True):
        assert ((got - want).abs() <= error * 10 * (scale + want.abs())).all()
    # The derivative by log w is a sum of terms that may be far larger than f: each has its own roundings.
    shares = gaussian_reference(query, keys, torch.eye(len(keys), dtype=torch.float64), width, index)
    apart = (values - wanted[0].unsqueeze(1)).abs().sum(-1, keepdim=True)
    terms = (shares.unsqueeze(-1) * apart * ((query[:, None] - keys) * width).square()).sum((0, 1))
    slack = error * (unit * len(query) + 1e-30)
    slack = slack + 8 * torch.finfo(dtype).eps * (terms if len(width) > 1 else terms.sum())
    assert ((found[-1] - wanted[-1]).abs() * width.abs() <= slack).all()


def _sample(seed: int, queries: int, keys: int, features: int, outputs: int, offset: float) -> list[Tensor]:
    """Queries, keys and values: some far apart, some equal, some alone."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(queries + keys, features, dtype=torch.float64, generator=generator)
    x = torch.where(torch.rand(len(x), 1, generator=generator) < 0.2, x * 30, x)
    x = torch.where(torch.rand(len(x), 1, generator=generator) < 0.2, x.round(), x) + offset
    values = torch.randn(keys, outputs, dtype=torch.float64, generator=generator)
    return [x[:queries], x[queries:], values]


WIDTHS = st.sampled_from([0.0, 1e-30, 1e-3, 0.3, -1.0, 3.0, 30.0, 1e3, 1e6])
OFFSETS = st.sampled_from([0.0, 0.0, 10.0, 1e3, -1e5])


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(0, 30),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 3),
    WIDTHS,
    OFFSETS,
    st.booleans(),
    st.sampled_from([(torch.float32, 3e-6), (torch.float64, 1e-12)]),
)
@example(562, 18, 53, 3, 1, 1000.0, 0.0, True, (torch.float32, 3e-6))  # its gradients by w are above 100
@example(562, 19, 52, 3, 1, 1000.0, 0.0, True, (torch.float32, 3e-6))  # as are the terms of these
def test_values_and_all_gradients_are_those_of_the_formula(
    seed: int,
    queries: int,
    keys: int,
    features: int,
    outputs: int,
    width: float,
    offset: float,
    per_feature: bool,
    precision: tuple[torch.dtype, float],
) -> None:
    tensors = _sample(seed, queries, keys, features, outputs, offset)
    widths = torch.full([features if per_feature else 1], width, dtype=torch.float64)
    widths *= 1 + torch.arange(len(widths)) / 3
    index = torch.randint(-1, keys, (queries,), generator=torch.Generator().manual_seed(seed))
    tensors = [x.requires_grad_() for x in (*tensors, widths)]
    _compare(tensors, index, *precision)


@pytest.mark.parametrize("method", ["sorted", "cells", "cells of few"])
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 3), WIDTHS, OFFSETS, st.booleans())
def test_one_feature_by_any_method(
    method: str, seed: int, keys: int, outputs: int, width: float, offset: float, own: bool
) -> None:
    query, key, values = _sample(seed, 50, keys, 1, outputs, offset)
    seeded = torch.Generator().manual_seed(seed)
    index = torch.arange(keys) if own else torch.randint(-1, keys, (50,), generator=seeded)
    tensors = [
        key if own else query,
        key,
        values,
        torch.tensor([width], dtype=torch.float64).requires_grad_(),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regression, "CELLS_FROM", 1 if method.startswith("cells") else 10**9)
        patch.setattr(regression, "SORTING_FROM", 0)
        patch.setattr(regression, "ALL_KEYS_UP_TO", 0 if method != "cells of few" else 10**9)
        tolerance = 1e-6 if method.startswith("cells") else None
        _compare(tensors, index, torch.float64, 1e-12 if tolerance is None else 1e-6, tolerance=tolerance)
        _compare(tensors, index, torch.float32, 5e-6, tolerance=tolerance)


def _problem(keys: int, width: float, spread: float = 5.0) -> Problem:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(keys, 1, dtype=torch.float64, generator=generator) * spread
    values = torch.randn(keys, 2, dtype=torch.float64, generator=generator)
    rates = torch.tensor([width**2 * 0.7213475204444817], dtype=torch.float64)
    return Problem(x, x, values, rates, torch.arange(keys), True)


@pytest.mark.parametrize("width", [0.5, 10.0, 200.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_the_bound_of_the_cells_holds(width: float, tolerance: float) -> None:
    problem = _problem(700, width)
    found = cell_moments(problem, tolerance)
    assert found is not None
    moments, bound = found
    error = (moments - pair_moments(problem)).abs() / problem.values.abs().max().clamp_min(1)
    assert (error.amax((1, 2)) <= bound).all()
    assert (bound[moments[:, 0, 0] > 1] <= tolerance).all()  # or nothing would be taken from there


@pytest.mark.parametrize("width", [1e-5, 1e-3, 0.04, 0.5, 10.0, 200.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_the_bound_of_the_cells_holds_for_lines(width: float, tolerance: float) -> None:
    problem = _problem(700, width)._replace(slopes=False, linear=True)
    found = cell_moments(problem, tolerance)
    assert found is not None
    moments, bound = found
    wanted, top = near_moments(problem)
    error = moments - wanted * top.exp2()[:, None, None]
    units = problem.reach ** torch.arange(3)[:, None]
    error = error.abs() / units / problem.values.abs().max().clamp_min(1)
    assert (error.amax((1, 2)) <= bound).all()
    assert (bound[moments[:, 0, 0] > 1] <= tolerance).all()


def test_a_finer_tolerance_takes_more_nodes_until_float64_ends() -> None:
    nodes = [nodes_for(1.0, 10.0**-k, slopes=True) for k in (2, 6, 9)]
    assert None not in nodes and nodes == sorted(set(nodes))  # type: ignore[type-var]
    assert nodes_for(1.0, 1e-12, slopes=True) is None


def test_a_left_out_sample_at_another_place_than_the_query() -> None:
    """The queries are every other row of a tensor that begins with the samples, so both share memory."""
    torch.manual_seed(0)
    base = torch.rand(6000, 1, dtype=torch.float64)
    keys, values = base[:3000], torch.randn(3000, 1, dtype=torch.float64)
    query, width, own = base[::2], torch.tensor([50.0]).double(), torch.arange(3000)
    expected = gaussian_reference(query, keys, values, width, own, None)
    found = gaussian_regression(query, keys, values, width, own, tolerance=1e-6)
    assert (found - expected).abs().max() <= 1e-6 * values.abs().max() * 2


@pytest.mark.parametrize("width", [3.0, 300.0, 1e5])
def test_sorted_and_near_sums_are_those_over_all_keys(width: float) -> None:
    problem = _problem(900, width)
    torch.testing.assert_close(sorted_moments(problem), pair_moments(problem), atol=1e-12, rtol=1e-12)
    far, far_top = far_moments(problem)
    for all_keys_up_to in (0, 10**6):
        near, near_top = near_moments(problem, all_keys_up_to)
        torch.testing.assert_close(near_top, far_top)
        torch.testing.assert_close(near[:, 0], far[:, 0], atol=1e-12, rtol=1e-12)


def test_where_all_kernels_underflow_the_nearest_sample_wins() -> None:
    x = torch.tensor([[0.0], [1.0], [3.0], [1e4]])
    y = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    for tolerance in (None, 1e-6):
        found = gaussian_regression(x, x, y, torch.tensor([1e3]), torch.arange(4), tolerance)
        assert found[:, 0].tolist() == [2.0, 1.0, 2.0, 4.0]


def test_no_sample_left_is_zero_with_zero_gradient() -> None:
    x, width = torch.ones(1, 1, requires_grad=True), torch.ones(1, requires_grad=True)
    found = gaussian_regression(x, x, x + 1, width, torch.tensor([0]))
    assert found.item() == 0
    assert all(not g.any() for g in torch.autograd.grad(found.sum(), [x, width]))
    assert not gaussian_regression(x, x[:0], x[:0], width).any()
    assert gaussian_regression(x[:0], x, x, width, tolerance=1e-6).shape == (0, 1)


def test_a_number_that_is_none_spreads_and_does_no_harm() -> None:
    x = torch.arange(4.0)[:, None]
    for wrong in (torch.nan, torch.inf):
        assert gaussian_regression(x, x, x, torch.tensor([wrong]), tolerance=1e-6).isnan().all()
        found = gaussian_regression(x.where(x > 0, torch.nan), x, x, torch.ones(1), tolerance=1e-6)
        assert found[0].isnan() and not found[1:].isnan().any()


@pytest.mark.parametrize("tolerance", [None, 1e-6])
def test_an_offset_of_the_values_costs_no_digits_of_the_gradient(
    tolerance: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "CELLS_FROM", 1)
    x = _sample(0, 100, 1, 1, 1, 0.0)[0].float().double()
    y = (x.sin() * 1024).round() / 1024  # float32 holds y and y + 4096 exactly
    width = torch.full([1], 2.0, dtype=torch.float64, requires_grad=True)
    moved = [x, x, y + 4096, width]
    _, wanted = _run(gaussian_reference, [x, x, y, width], torch.arange(100), torch.float64)
    _, found = _run(gaussian_regression, moved, torch.arange(100), torch.float32, tolerance=tolerance)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)


def test_half_precision_and_autocast_are_summed_in_float32() -> None:
    x, width = torch.rand(300, 1).bfloat16(), torch.ones(1)
    with torch.autocast("cpu", torch.bfloat16):
        found = gaussian_regression(x, x, x, width, tolerance=None)
    wanted = gaussian_reference(x.double(), x.double(), x.double(), width.double())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, atol=2e-3, rtol=4e-3)


def test_pairs_are_held_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    taken = pairs.Buffers.of

    def watched(self: pairs.Buffers, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        nonlocal largest
        largest = max(largest, queries * keys)
        return taken(self, queries, keys)

    monkeypatch.setattr(pairs.Buffers, "of", watched)
    monkeypatch.setattr(pairs, "CHUNK", 1000)
    x = torch.rand(200, 1, requires_grad=True)
    one = gaussian_regression(x, x, x, torch.ones(1), torch.arange(200))
    one.sum().backward()
    assert 0 < largest <= 1000
    wanted = gaussian_reference(x, x, x, torch.ones(1), torch.arange(200))
    torch.testing.assert_close(one, wanted, atol=1e-6, rtol=1e-6)


def test_a_width_whose_square_float32_cannot_hold_leaves_each_sample_alone() -> None:
    x = torch.arange(4.0)[:, None]
    found = gaussian_regression(x, x, x + 1, torch.tensor([1e25]), tolerance=1e-6)
    assert torch.equal(found, x + 1)


def test_in_float64_sorted_keys_far_away_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "SORTING_FROM", 0)
    query, keys = torch.zeros(1, 1).double(), torch.full((1001, 1), 8.2).double()
    keys[0] = 3.5
    values = (keys > 5).double()
    found = gaussian_regression(query, keys, values, torch.ones(1).double())
    wanted = gaussian_reference(query, keys, values, torch.ones(1).double())
    torch.testing.assert_close(found, wanted, atol=0, rtol=1e-5)


def test_a_gpu_takes_more_points_at_once() -> None:
    count = 10 * cells.POINTS + 1
    for device, pieces in (("cpu", 11), ("cuda", 2)):
        parts = list(cells._pieces(count, torch.device(device)))
        assert len(parts) == pieces
        assert [place for part in parts for place in range(count)[part]] == list(range(count))
