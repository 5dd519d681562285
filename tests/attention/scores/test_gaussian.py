"""The Gaussian score's inner-product form: exact where it is used, and not used where it is not."""

import copy
import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from counted_operators import Operators
from torch import Tensor, nn
from torch._dynamo.utils import counters

from attention_lab.attention import Attention, Band, Gaussian, Global, ScaledDot, Score, leave_out_mask


def _regress(x: torch.Tensor, y: torch.Tensor, width: float, dtype: torch.dtype) -> torch.Tensor:
    attention = Attention(Gaussian(1, 1, width=width)).to(dtype)
    mask = leave_out_mask(torch.arange(len(x)), len(x))
    x, y = x.to(dtype), y.to(dtype)
    return attention(x, attention.remember(x, y, mask))


def _exact(x: torch.Tensor, y: torch.Tensor, width: float) -> torch.Tensor:
    kernel = torch.exp(-(((x - x.mT) * width) ** 2) / 2).fill_diagonal_(0)
    return kernel @ y / kernel.sum(-1, keepdim=True)


@pytest.mark.parametrize("offset", [0.0, 1000.0, -1e5])
@pytest.mark.parametrize("width", [0.1, 1.0, 5.0, 9.0])
def test_an_offset_does_not_hurt(offset: float, width: float) -> None:
    torch.manual_seed(0)
    x = torch.rand(200, 1, dtype=torch.float64) * 5
    x = (x + offset).float().double()  # what float32 can hold of it
    y = torch.sin(x - offset)
    assert torch.allclose(_regress(x, y, width, torch.float32).double(), _exact(x, y, width), atol=2e-5)


def test_a_narrow_kernel_leaves_the_inner_product_and_stays_exact() -> None:
    torch.manual_seed(0)
    x = torch.rand(200, 1, dtype=torch.float64) * 5
    y = torch.sin(x)
    score = Gaussian(1, 1, width=100.0)
    assert score.features(x.float(), x.float(), None) is None
    assert Gaussian(1, 1, width=5.0).features(x.float(), x.float(), None) is not None
    assert torch.allclose(_regress(x, y, 100.0, torch.float32).double(), _exact(x, y, 100.0), atol=1e-4)


def test_a_hidden_key_moves_no_centre() -> None:
    score = Gaussian(1, 1, width=1.0)
    keys = torch.tensor([[1.0], [2.0], [1e9]])
    mask = torch.tensor([[True, True, False]])
    queries = torch.tensor([[1.5], [1.2]])
    assert score.features(queries, keys, mask) is not None
    assert score.features(queries, keys, None) is None


def test_a_single_query_is_not_worth_the_features_of_all_keys() -> None:
    attention = Attention(Gaussian(3, 3))
    query, keys = torch.randn(1, 3), torch.randn(50, 3)
    with Operators() as operators:
        context = attention(query, attention.remember(keys))
    assert not operators.calls["cat"]  # of the features
    kernel = torch.exp(-0.5 * ((query - keys) * attention.score.width).square().sum(-1, keepdim=True))
    assert torch.allclose(context, (kernel * keys).sum(0, keepdim=True) / kernel.sum(), atol=1e-6)


def test_one_width_for_each_feature() -> None:
    score = Gaussian(2, 2, width=2.0, per_feature=True)
    score.width.data = torch.tensor([1.0, 3.0])
    q, k = torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 1.0]])
    assert torch.allclose(score(q, k), torch.tensor([[-(4.0 + 9.0) / 2]]))


class _Attending(nn.Module):
    def __init__(self, score: Callable[[int, int], Score]) -> None:
        super().__init__()
        self.attention = Attention(score(3, 3))

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        return self.attention(query, self.attention.remember(key, mask=mask))  # type: ignore[no-any-return]


def test_distances_do_not_overflow_half_precision() -> None:
    attention = Attention(Gaussian(2, 2, width=1.0)).half()
    query, key = torch.tensor([[0.0, 0.0]]).half(), torch.tensor([[500.0, 0.0], [400.0, 0.0]]).half()
    memory = attention.remember(key, torch.tensor([[1.0], [2.0]]).half())
    context = attention(query, memory)
    assert context.tolist() == [[2.0]] and context.dtype == torch.float16


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_takes_the_inner_product_in_float32(
    dtype: torch.dtype, autocast: bool, windowed: bool
) -> None:
    """All pairs took eight times as long on the CPU, and more memory."""
    torch.manual_seed(0)
    window = Band(3, width=4) if windowed else Global(3)
    attention = Attention(Gaussian(3, 3, width=4.0), window=window)
    exact = copy.deepcopy(attention).double()
    inputs = [(torch.randn(2, 300, 3) + offset).to(dtype) for offset in (2.0, 2.0, 0.0)]
    upstream = torch.randn(2, 300, 3).to(dtype)

    def results(attention: Attention, dtype: torch.dtype) -> tuple[Tensor, ...]:
        query, key, value = leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
        with Operators() as operators:
            context = attention(query, attention.remember(key, value))
        assert not operators.calls["_cdist_forward"]
        loss = (context.double() * upstream.double()).sum()
        return context.detach(), *torch.autograd.grad(loss, [*leaves, attention.score.width])

    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        found = results(attention if autocast else attention.to(dtype), torch.float32 if autocast else dtype)
    assert found[0].dtype == dtype
    for one, wanted in zip(found, results(exact, torch.float64), strict=True):
        largest = float(wanted.abs().max())
        torch.testing.assert_close(one.double(), wanted, rtol=0, atol=2 * torch.finfo(dtype).eps * largest)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("score", [Gaussian, partial(Gaussian, per_feature=True), ScaledDot])
def test_vmap_and_export_compute_the_same(score: Callable[[int, int], Score], unchecked_shapes: None) -> None:
    """Neither can look at values to choose a path."""
    model = _Attending(score).eval()
    query, key, mask = torch.randn(2, 4, 3), torch.randn(2, 5, 3), torch.rand(2, 1, 5) > 0.3
    wanted = model(query, key, mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's fused kernel has no batching rule
        assert torch.allclose(torch.func.vmap(model)(query, key, mask), wanted, atol=1e-6)
        loss = lambda query, *others: model(query, *others).square().sum()  # noqa: E731
        each = torch.func.vmap(torch.func.grad(loss))(query, key, mask)
        together = torch.func.grad(loss)(query, key, mask)
    assert torch.allclose(each, together, atol=1e-5)
    queries, keys = torch.export.Dim("Q"), torch.export.Dim("K")
    sizes = {1: queries}, {1: keys}, {2: keys}
    exported = torch.export.export(model, (query, key, mask), dynamic_shapes=sizes).module()
    assert torch.allclose(exported(query, key, mask), wanted, atol=1e-6)
    query, key, mask = query.repeat(1, 3, 1), key.repeat(1, 4, 1), mask.repeat(1, 1, 4)
    assert torch.allclose(exported(query, key, mask), wanted.repeat(1, 3, 1), atol=1e-6)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of Dynamo
def test_compiling_it_prints_no_warning_of_a_graph_break(unchecked_shapes: None) -> None:
    """PyTorch prints thirty lines for `bool(tensor)`, but none for a branch on a tensor."""
    torch._dynamo.reset()  # type: ignore[no-untyped-call]
    counters["graph_break"].clear()
    query, key, mask = torch.randn(2, 4, 3), torch.randn(2, 5, 3), torch.rand(2, 1, 5) > 0.3
    torch.compile(_Attending(Gaussian), backend="eager")(query, key, mask)
    assert not [reason for reason in counters["graph_break"] if "item()" in reason]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of Dynamo
def test_it_compiles(unchecked_shapes: None) -> None:
    """With values and gradients as uncompiled, which takes the inner product for the first width only."""
    for width in (0.5, 100.0):
        model = _Attending(partial(Gaussian, width=width)).double()
        query, key, mask = (
            torch.randn(2, 4, 3).double(),
            torch.randn(2, 5, 3).double(),
            torch.rand(2, 1, 5) > 0.3,
        )
        leaves = [query.requires_grad_(), key.requires_grad_(), *model.parameters()]
        compiled = torch.compile(model, backend="aot_eager")
        found, wanted = compiled(query, key, mask), model(query, key, mask)
        assert torch.allclose(found, wanted, atol=1e-12)
        for got, want in zip(
            *(torch.autograd.grad(context.sin().sum(), leaves) for context in (found, wanted)), strict=True
        ):
            assert torch.allclose(got, want, atol=1e-10)
