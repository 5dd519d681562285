"""Which cells are known to be masked."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from written_elsewhere import FromFunction

from attention_lab.attention import recording

B, L, D = 2, 5, 4
VISIBLE = torch.ones(L, L).tril().bool()


def _mask(attend: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(0)
    model = FromFunction(attend)
    with recording(model) as weights:
        model(2 * torch.randn(B, L, D, dtype=dtype))
    return weights.mask("")


@pytest.mark.parametrize("low", ["-inf", "-1e4", "-1e6", "-1e8", "-1e9", "min"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("added", [False, True])
def test_low_scores_are_masked(low: str, dtype: torch.dtype, added: bool) -> None:
    """In bfloat16 too, whose range is that of float32; with a score added, -1e8 may round upwards."""
    number = torch.finfo(dtype).min if low == "min" else float(low)

    def by_hand(x: Tensor) -> Tensor:
        scores = x @ x.mT
        bias = torch.zeros(L, L, dtype=dtype).masked_fill(~VISIBLE, number)
        return (scores + bias if added else scores.masked_fill(~VISIBLE, number)).softmax(-1) @ x

    def kernel(x: Tensor) -> Tensor:
        bias = torch.zeros(L, L, dtype=dtype).masked_fill(~VISIBLE, number)
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], bias)

    if low == "-inf" or number >= torch.finfo(dtype).min:
        for attend in (by_hand, kernel):
            assert torch.equal(_mask(attend, dtype), VISIBLE.expand(B, 1, L, L)), attend.__name__


MASKING: dict[str, Callable[[Tensor], Tensor]] = {
    "multiplied": lambda weights: weights * VISIBLE,
    "in place": lambda weights: weights.mul_(VISIBLE.to(weights.dtype)),
    "filled": lambda weights: weights.masked_fill(~VISIBLE, 0.0),
    "chosen": lambda weights: torch.where(VISIBLE, weights, 0.0),
    "triangle": torch.tril,
}


@pytest.mark.parametrize("name", MASKING)
@pytest.mark.parametrize("dropout", [0.0, 0.9])
def test_weights_set_to_zero_are_masked(name: str, dropout: float) -> None:
    """Also if they were dropped before, or are normalised again, and the first keys hidden before."""
    hidden = torch.zeros(L).scatter(0, torch.tensor([0]), -torch.inf)

    def attend(x: Tensor) -> Tensor:
        weights = MASKING[name](F.dropout((x @ x.mT + hidden).softmax(-1), dropout))
        return weights / (weights.sum(-1, keepdim=True) + 1e-9) @ x

    assert torch.equal(_mask(attend), (VISIBLE & (hidden == 0)).expand(B, 1, L, L))


def test_a_weight_that_is_zero_by_itself_is_not_masked() -> None:
    assert _mask(lambda x: ((100 * x @ x.mT).softmax(-1) * 0.5) @ x).all()


def test_a_weight_of_one_is_not_masked() -> None:
    """Its logarithm is zero."""

    def attend(x: Tensor) -> Tensor:
        return ((x[:, :1] @ x[:, :1].mT).log_softmax(-1) * 1.0).exp() @ x[:, :1]

    assert _mask(attend).all()


def test_rows_of_low_scores_are_not_masked() -> None:
    """Squared distances of features far from each other; a fill such as -1e9 does mask a row."""

    def attend(x: Tensor) -> Tensor:
        scores = -(torch.cdist(x, x + 100) ** 2)
        return scores.index_fill(1, torch.tensor([1]), -1e9).softmax(-1) @ x

    assert torch.equal(_mask(attend), (torch.arange(L) != 1)[:, None].expand(B, 1, L, L))


def test_there_may_be_no_keys() -> None:
    assert _mask(lambda x: (x @ x[:, :0].mT).softmax(-1) @ x[:, :0]).shape == (B, 1, L, 0)


def _by_hand(x: Tensor) -> Tensor:
    return (x @ x.mT).masked_fill(~VISIBLE, -torch.inf).softmax(-1) @ x


def _kernel(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], VISIBLE)


@pytest.mark.parametrize("attend", [_by_hand, _kernel])
def test_weights_that_are_not_a_number_are_recorded_as_they_are(attend: Callable[[Tensor], Tensor]) -> None:
    """They are not zero, as those of a query without keys are: one looks for where NaN begins."""
    model, x = FromFunction(attend), torch.randn(B, L, D)
    x[0, 2] = torch.nan
    with recording(model) as weights:
        model(x)
    rows = torch.tensor(
        [[False, False, True, True, True], [False] * L]
    )  # the later queries see the third key
    assert torch.equal(weights[""].isnan()[:, 0], rows[:, :, None].expand(B, L, L))
    assert torch.equal(weights.mask(""), VISIBLE.expand(B, 1, L, L))


def test_a_softmax_that_overwrites_its_scores() -> None:
    """They cannot say what was masked; the weights do."""

    def attend(x: Tensor) -> Tensor:
        scores = (x @ x.mT).masked_fill(~VISIBLE, -torch.inf)
        return torch.softmax(scores, -1, out=scores) @ x

    assert torch.equal(_mask(attend), VISIBLE.expand(B, 1, L, L))
