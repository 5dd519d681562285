"""Dropout: what is kept, how often and independently of what, and PyTorch's own where that is as good."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attention_lab.attention import Dropout
from attention_lab.attention.fast.dropout import SMALL

LARGE = 2**18


@pytest.mark.parametrize("count", [SMALL - 1, SMALL, SMALL + 1, LARGE + 3])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_elements_are_kept_at_the_rate_and_scaled(count: int, p: float) -> None:
    torch.manual_seed(0)
    x = torch.rand(count) + 1
    y = Dropout(p)(x)
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] / (1 - p), rtol=2e-4, atol=0)
    assert abs(float(kept.double().mean()) - (1 - p)) < 4 * (p * (1 - p) / count) ** 0.5


@pytest.mark.parametrize("p", [0.1, 1e-4])
def test_the_expectation_is_exact(p: float) -> None:
    """Elements are kept at a rate of whole 1/65536, and the factor is that of the rate."""
    torch.manual_seed(0)
    factor = float(Dropout(p)(torch.ones(LARGE, dtype=torch.float64)).max())
    share = 2**16 / factor
    assert share == pytest.approx(round(share), abs=1e-9)
    assert share == pytest.approx((1 - p) * 2**16, abs=0.5)


def test_neighbours_are_dropped_independently() -> None:
    """Four of them come from one random number."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(LARGE)) != 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8):
        together = float((kept[distance:] * kept[:-distance]).mean()) / 0.25
        assert abs(together) < 4 / LARGE**0.5


def test_the_gradient_is_the_mask() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, SMALL // 64, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient * x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_type_shape_and_strides_do_not_matter(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(40, 300, dtype=dtype).mT
    assert x.numel() >= SMALL
    y = Dropout(0.25)(x)
    assert (y.dtype, y.shape) == (dtype, x.shape)
    assert y.unique().tolist() == [0.0, pytest.approx(4 / 3, rel=1e-2)]


def test_the_same_seed_drops_the_same() -> None:
    dropout, x = Dropout(0.3), torch.ones(LARGE)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(x)  # type: ignore[no-any-return]

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    assert not torch.equal(dropout(x), dropout(x))


def test_checkpointing_draws_the_same_again() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(Dropout(0.5), nn.Sigmoid())
    x = torch.randn(LARGE, requires_grad=True)
    y = checkpoint(layer, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    dropped = y == 0.5
    assert torch.equal(gradient == 0, dropped)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_none_and_all(p: float) -> None:
    x = torch.randn(LARGE)
    assert torch.equal(Dropout(p)(x), x * (1 - p))


def test_nothing_happens_outside_training() -> None:
    x = torch.randn(LARGE)
    assert Dropout(0.5).eval()(x) is x


def test_no_probability() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_each_example_under_vmap_is_dropped_by_itself() -> None:
    x = torch.ones(2, LARGE)
    first, second = torch.func.vmap(Dropout(0.5), randomness="different")(x) == 0
    assert abs(float((first == second).double().mean()) - 0.5) < 4 * 0.5 / LARGE**0.5
    first, second = torch.func.vmap(Dropout(0.5), randomness="same")(x) == 0
    assert torch.equal(first, second)


def test_the_mask_lies_where_the_input_does() -> None:
    with torch.device("meta"):
        assert Dropout(0.5)(torch.ones(LARGE, device="cpu")).device.type == "cpu"
