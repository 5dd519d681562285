"""Every mechanism, on the GPU in each precision, against the formula in float64 on the CPU."""

from functools import cache

import pytest
import torch
from mechanisms import CASES, Case, K, expected, gradients, masks, tensors
from torch import Tensor

from attention_lab.attention import Attention, recording

pytestmark = pytest.mark.gpu

HALVES = (torch.float16, torch.bfloat16)
TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 6e-2}
POISONS = (1e4, float("nan"), float("inf"))

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_dtype = pytest.mark.parametrize(
    "dtype", TOLERANCES, ids=lambda dtype: str(dtype).removeprefix("torch.")
)


def _size(case: Case, dtype: torch.dtype) -> float:
    """A factor on the inputs with which no rounding decides whether a key counts."""
    return 0.1 if dtype in HALVES and (case.score == "Boxcar" or case.window == "LocalP") else 1.0


@cache
def _rounded(case: Case, dtype: torch.dtype) -> tuple[Attention, list[Tensor]]:
    """The mechanism and its inputs, rounded to a precision and kept in float64 on the CPU."""
    inputs = [(x.detach() * _size(case, dtype)).to(dtype).double().requires_grad_() for x in tensors(2)]
    return case.make(2, temperature=1.7).to(dtype).double(), inputs


@cache
def _wanted(case: Case, dtype: torch.dtype, mask_name: str) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Context, weights and gradients by the formula."""
    attention, inputs = _rounded(case, dtype)
    context, weights = expected(attention, inputs, masks()[mask_name])
    return context.detach(), weights.detach(), gradients(context, attention, inputs)


def _moved(case: Case, dtype: torch.dtype, device: torch.device) -> tuple[Attention, list[Tensor]]:
    attention, inputs = _rounded(case, dtype)
    mine = case.make(2, temperature=1.7).to(device, dtype)
    mine.load_state_dict(attention.state_dict())
    return mine, [x.detach().to(device, dtype).requires_grad_() for x in inputs]


def _mask(name: str, device: torch.device) -> Tensor | None:
    mask = masks()[name]
    return None if mask is None else mask.to(device)


def _run(attention: Attention, inputs: list[Tensor], mask: Tensor | None) -> Tensor:
    query, key, value = inputs
    context: Tensor = attention(query, attention.remember(key, value, mask))
    return context


def _error(found: Tensor, wanted: Tensor) -> float:
    """`max |a - b| / max(1, max |b|)`; NaN counts as infinite."""
    error = (found.detach().cpu().double() - wanted).abs().max() / wanted.abs().max().clamp_min(1.0)
    return float(error.nan_to_num(nan=torch.inf))


@every_dtype
@every_case
def test_equals_the_formula(case: Case, dtype: torch.dtype, device: torch.device) -> None:
    """Context, weights and gradients, under each mask."""
    attention, inputs = _moved(case, dtype, device)
    tolerance = TOLERANCES[dtype]
    if case.score == "Epanechnikov" and dtype in HALVES:  # its logarithm is steep at the edge of its support
        tolerance *= 2
    for name in masks():
        context, weights, slopes = _wanted(case, dtype, name)
        with recording(attention) as seen:
            found = _run(attention, inputs, _mask(name, device))
        assert found.device == inputs[0].device and found.dtype == dtype
        assert _error(seen[""], weights) <= tolerance, name
        if case.pooling != "Soft" and dtype in HALVES:  # one of two keys that weigh the same is as right
            assert found.isfinite().all(), name
            continue
        assert _error(found, context) <= tolerance, name
        for got, want in zip(gradients(found, attention, inputs), slopes, strict=True):
            assert _error(got, want) <= 3 * tolerance, name


@every_dtype
@every_case
def test_padding_leaks_neither_value_nor_gradient(
    case: Case, dtype: torch.dtype, device: torch.device
) -> None:
    attention, inputs = _moved(case, dtype, device)
    mask = _mask("padding", device)
    clean = _run(attention, inputs, mask)
    wanted = [clean, *gradients(clean, attention, inputs)]
    hidden = (
        torch.arange(K, device=device)[:, None] >= torch.tensor([K, 2], device=device)[:, None, None, None]
    )
    query, key, value = inputs
    for poison in POISONS:
        bad = [query, *(x.detach().masked_fill(hidden, poison).requires_grad_() for x in (key, value))]
        context = _run(attention, bad, mask)
        for got, want in zip([context, *gradients(context, attention, bad)], wanted, strict=True):
            assert _error(got, want.detach().cpu().double()) <= TOLERANCES[dtype] / 4, poison


@every_dtype
@every_case
def test_rows_without_a_key_are_zero(case: Case, dtype: torch.dtype, device: torch.device) -> None:
    """Context, weights and gradient; in a row of its own and in an example without a key."""
    attention, inputs = _moved(case, dtype, device)
    for name, empty in (("empty rows", (slice(None), slice(None), 1)), ("empty example", (1,))):
        with recording(attention) as seen:
            context = _run(attention, inputs, _mask(name, device))
        assert not context[empty].any() and not seen[""][empty].any()
        found = gradients(context, attention, inputs)
        assert all(x.isfinite().all() for x in found)
        assert not found[0][empty].any()
        if name == "empty example":
            assert not any(x[empty].any() for x in found[1:3])


@every_dtype
@every_case
def test_recording_changes_no_bit(case: Case, dtype: torch.dtype, device: torch.device) -> None:
    """Contexts, gradients and draws."""
    attention, inputs = _moved(case, dtype, device)
    attention.train()

    def run(mask: Tensor | None) -> list[Tensor]:
        torch.manual_seed(3)
        context = _run(attention, inputs, mask)
        return [context, torch.rand(1, device=device), *gradients(context, attention, inputs)]

    for mask in (None, _mask("empty rows", device)):
        plain = run(mask)
        for examples in (None, slice(1)):
            with recording(attention, examples):
                recorded = run(mask)
            for got, want in zip(recorded, plain, strict=True):
                assert torch.equal(got, want)
