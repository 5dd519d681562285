"""Compiled code is not exported code, though some versions of PyTorch, such as 2.11, say that it is."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from attention_lab.attention import Attention, Band, ScaledDot
from attention_lab.attention.fast.additive.chunks import CHUNK
from attention_lab.attention.fast.additive.scores import additive_scores
from attention_lab.attention.fast.linear import linear_attention
from attention_lab.attention.torch_state import exporting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(autouse=True)
def _as_in_torch_2_11(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compile(torch.relu, backend="eager")(torch.ones(1))  # Dynamo looks up functions only once
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: torch.compiler.is_compiling())


def _largest(function: Callable[..., Tensor], *inputs: Tensor) -> int:
    """Elements of the largest result of an operation in the compiled code."""
    sizes = []

    def backend(graph: GraphModule, _: list[Tensor]) -> Callable[..., object]:
        for node in graph.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, Tensor) and node.op != "placeholder":
                sizes.append(value.numel())
        return graph.forward

    found = torch.compile(function, backend=backend)(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-4, atol=1e-5)
    return max(sizes)


def test_additive_scores_store_no_hidden_units_of_all_pairs() -> None:
    query, keys, weight = torch.randn(1, 200, 64), torch.randn(1, 100, 64), torch.randn(64)
    assert CHUNK < 200 * 100 * 64
    assert _largest(lambda *x: additive_scores(*x), query, keys, weight) == 200 * 100


def test_causal_linear_attention_multiplies_no_pairs_of_all_positions() -> None:
    query, key, value = torch.rand(3, 1, 1024, 4)
    assert _largest(lambda *x: linear_attention(*x, causal=True), query, key, value) < 1024**2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*Function.*should not be instantiated:DeprecationWarning")  # by Dynamo
def test_a_band_takes_strips() -> None:
    attention = Attention(ScaledDot(8, 8), window=Band(8, width=4)).requires_grad_(False)
    x = torch.randn(1, 512, 8)
    assert _largest(lambda x: attention(x, attention.remember(x)), x) < 512**2


def test_exported_code_is_known() -> None:
    class Module(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if exporting() else x

    x = torch.zeros(2)
    for strict in (False, True):
        assert torch.export.export(Module(), (x,), strict=strict).module()(x).sum() == 2
    assert torch.compile(Module(), backend="eager", fullgraph=True)(x).sum() == 0
    assert not exporting()
