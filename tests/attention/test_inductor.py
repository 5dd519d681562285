"""What Inductor, PyTorch's default compiler, generates for each mechanism compiles and computes the same."""

from functools import partial

import pytest
import torch
from mechanisms import NARROW, NORMALIZERS, SCORES, WINDOWS
from torch import Tensor, nn
from torch._dynamo.utils import counters

from attention_lab.attention import Gaussian, Mechanism, MultiHead, lengths_mask
from attention_lab.models import KernelRegression
from attention_lab.sizes import RegressionSizes

SIZE = 8
MECHANISMS = {
    **{name: Mechanism(score) for name, score in SCORES.items()},
    **{name: Mechanism(SCORES["ScaledDot"], normalizer) for name, normalizer in NORMALIZERS.items()},
    **{
        name: Mechanism(SCORES["ScaledDot"], window=partial(window, **NARROW.get(name, {})))
        for name, window in WINDOWS.items()
    },
}

pytestmark = [
    pytest.mark.usefixtures("unchecked_shapes"),  # Dynamo would trace the checks
    pytest.mark.filterwarnings(  # of PyTorch, about itself
        "ignore:The .grad attribute of a Tensor that is not a leaf", "ignore::DeprecationWarning"
    ),
]


def _check(name: str) -> None:
    torch._dynamo.reset()  # type: ignore[no-untyped-call]
    torch.manual_seed(0)
    layer = MultiHead(MECHANISMS[name], SIZE, heads=2)

    def attend(x: Tensor, lengths: Tensor) -> Tensor:
        context: Tensor = layer(x, lengths_mask(lengths, x.shape[1]))
        return context

    compiled = torch.compile(attend, dynamic=True)
    for length in (19, 40):  # more and less than the vectors of the generated code
        x, lengths = torch.randn(3, length, SIZE, requires_grad=True), torch.tensor([length, 5, 7])
        found, expected = compiled(x, lengths), attend(x, lengths)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        gradients = (torch.autograd.grad(one.sin().sum(), x)[0] for one in (found, expected))
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_a_sink_beside_a_mask_of_lengths() -> None:
    """It adds a column to the mask, and Inductor generates invalid code for a reduction of that."""
    _check("SinkSoftmax")


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism(name: str) -> None:
    _check(name)


def test_kernel_regression_is_left_out_of_compiled_code() -> None:
    """PyTorch prints thirty lines for a graph break at `item`."""
    counters["graph_break"].clear()
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 20))
    inputs, index = torch.randn(20, 1), torch.arange(20)
    model.memorize(inputs, inputs.sin())
    compiled: nn.Module = torch.compile(model, backend="eager")  # type: ignore[assignment]
    torch.testing.assert_close(compiled(inputs, index), model(inputs, index))
    assert counters["graph_break"]
    assert not [reason for reason in counters["graph_break"] if "item()" in reason]
