"""`torch.compile` and `torch.jit.trace`: what is recorded for one call holds for calls with other inputs."""

import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Gaussian,
    Laplacian,
    Linear,
    Mechanism,
    MultiHead,
    MultiheadAttention,
    ScaledDot,
    Score,
    SinkSoftmax,
    Sparsemax,
    lengths_mask,
)

SIZE = 8
TRACING = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore:`torch.jit:FutureWarning",  # from PyTorch 2.14 on
    "ignore::torch.jit.TracerWarning",
)
pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # in a trace, sizes are tensors


class Masked(nn.Module):
    """Self-attention with a mask as an input."""

    def __init__(self, attention: Attention, causal: bool = False) -> None:
        super().__init__()
        self.attention, self.causal = attention, causal

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        context: Tensor = self.attention(x, self.attention.remember(x, mask=mask, causal=self.causal))
        return context


class Padded(nn.Module):
    """Self-attention by the drop-in for torch's layer: its outputs, or its weights."""

    def __init__(self, weights: bool = False) -> None:
        super().__init__()
        self.attention = MultiheadAttention(SIZE, 2, batch_first=True)
        self.weights = weights

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        output: Tensor = self.attention(x, x, x, key_padding_mask=padding)[int(self.weights)]
        return output


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [ScaledDot, Linear, Additive])
def test_causal_attention_is_one_graph_for_all_lengths(mechanism: type[Score]) -> None:
    layer = MultiHead(Mechanism(mechanism), size=SIZE, heads=2)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    for shape in ((2, 5, SIZE), (3, 7, SIZE), (2, 9, SIZE)):  # from the second on, sizes are symbols
        x = torch.randn(shape)
        assert torch.allclose(compiled(x, causal=True), layer(x, causal=True), atol=1e-5)


TRACED = {
    "scaled dot": lambda: Attention(ScaledDot(SIZE, SIZE)),
    "additive": lambda: Attention(Additive(SIZE, SIZE)),
    "linear": lambda: Attention(Linear(SIZE, SIZE)),
    "gaussian": lambda: Attention(Gaussian(SIZE, SIZE)),
    "sink": lambda: Attention(ScaledDot(SIZE, SIZE), SinkSoftmax()),
    "sparsemax": lambda: Attention(ScaledDot(SIZE, SIZE), Sparsemax()),
}
LENGTHS = {"all keys": [6, 6], "some padding": [6, 2], "no key": [6, 0]}


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "attention",
    [
        lambda: Attention(Additive(SIZE, SIZE)),
        lambda: Attention(Linear(SIZE, SIZE)),
        lambda: Attention(ScaledDot(SIZE, SIZE), window=Band(SIZE, width=2)),
        lambda: Attention(ScaledDot(SIZE, SIZE), Sparsemax(), window=Band(SIZE, width=2)),
    ],
    ids=["additive", "linear", "band", "sparse band"],
)
def test_what_is_exported_takes_all_lengths(attention: Callable[[], Attention], causal: bool) -> None:
    """Also those at which the module itself takes another path."""
    module, dynamic = Masked(attention(), causal), torch.export.Dim.DYNAMIC
    example = torch.randn(3, 6, SIZE), lengths_mask(torch.tensor([6, 3, 1]), 6)
    sizes = {0: dynamic, 1: dynamic}, {0: dynamic, 2: dynamic}
    exported = torch.export.export(module, example, dynamic_shapes=sizes, strict=False).module()
    for batch, length in [(1, 1), (2, 64), (2, 70), (2, 260)]:
        x, mask = torch.randn(batch, length, SIZE), lengths_mask(torch.arange(1, batch + 1), length)
        assert torch.allclose(exported(x, mask), module(x, mask), atol=1e-5)


@TRACING
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("traced_with", LENGTHS)
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_attention_applies_every_mask(name: str, traced_with: str, causal: bool) -> None:
    model = Masked(TRACED[name](), causal).eval()
    mask = lengths_mask(torch.tensor(LENGTHS[traced_with]), 6)
    traced = torch.jit.trace(model, (torch.randn(2, 6, SIZE), mask), check_trace=False)
    for lengths in ([6, 6], [3, 1], [0, 5]):
        x, mask = torch.randn(2, 6, SIZE), lengths_mask(torch.tensor(lengths), 6)
        assert torch.allclose(traced(x, mask), model(x, mask), atol=1e-5)


@TRACING
@pytest.mark.parametrize(
    "attention",
    [
        lambda: Attention(Additive(SIZE, SIZE, hidden_size=32)),
        lambda: Attention(Laplacian(SIZE, SIZE)),
        lambda: Attention(ScaledDot(SIZE, SIZE), window=Band(SIZE, width=2)),
    ],
    ids=["additive", "laplacian", "band"],
)
def test_a_trace_can_be_saved_and_needs_nothing_of_ours(attention: Callable[[], Attention]) -> None:
    model, length = Masked(attention()).eval(), 200  # beyond which functions of our own save time and memory
    mask = torch.ones(2, 1, length, dtype=torch.bool)
    x = torch.randn(2, length, SIZE)
    traced = torch.jit.trace(model, (x, mask), check_trace=False)
    torch.jit.save(traced, io.BytesIO())
    assert "attention_lab::" not in str(traced.inlined_graph)
    assert torch.allclose(traced(x, mask), model(x, mask), atol=1e-5)


@TRACING
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32], ids=str)
def test_the_traced_drop_in_applies_every_mask(dtype: torch.dtype) -> None:
    model = Padded().eval()
    nothing = torch.zeros(2, 6, dtype=dtype)
    traced = torch.jit.trace(model, (torch.randn(2, 6, SIZE), nothing), check_trace=False)
    x, padding = torch.randn(3, 9, SIZE), torch.rand(3, 9).round().to(dtype)
    assert torch.allclose(traced(x, padding), model(x, padding), atol=1e-5)


@TRACING
def test_the_older_exporter_to_onnx_knows_all_operators() -> None:
    pytest.importorskip("onnx")
    inputs = torch.randn(2, 6, SIZE), torch.zeros(2, 6, dtype=torch.bool)
    written = io.BytesIO()
    torch.onnx.export(Padded(weights=True).eval(), inputs, written, dynamo=False)
    assert written.getvalue()
