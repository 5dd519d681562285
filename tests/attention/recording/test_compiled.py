"""Our own attention in compiled code."""

from collections.abc import Iterator
from inspect import unwrap

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import Entmax15, Mechanism, MultiHead, ScaledDot, recording
from attention_lab.attention.recording.recording_mode import RecordingMode

MECHANISMS = {
    "kernel": Mechanism(ScaledDot),  # computes no weights of its own
    "weights": Mechanism(ScaledDot, normalizer=Entmax15),
}


@pytest.fixture(autouse=True)
def _nothing_stays_compiled(unchecked_shapes: None) -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.fixture(params=MECHANISMS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return nn.Sequential(*(MultiHead(MECHANISMS[request.param], 8, 2) for _ in range(2))).eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 8)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_compiled_model_says_that_nothing_is_recorded_and_runs_the_same_program(
    model: nn.Module, x: Tensor, warm: bool
) -> None:
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    plain = compiled(x) if warm else model(x)
    with (
        pytest.warns(UserWarning, match=r"a compiled graph.*before torch.compile"),
        recording(compiled) as weights,
        torch.compiler.set_stance("fail_on_recompile" if warm else "default"),
    ):
        assert torch.equal(compiled(x), plain)
    assert not weights


@torch.no_grad()
def test_a_model_is_recorded_in_a_compiled_function_that_calls_it(model: nn.Module, x: Tensor) -> None:
    with recording(model) as expected:
        model(x)
    compiled = torch.compile(model.forward, backend="eager")
    compiled(x)
    for _ in range(2):
        with recording(model) as weights:
            assert torch.allclose(compiled(x), model(x), atol=1e-6)
        assert [*weights] == [*expected]
        for name, one in weights.items():
            assert torch.allclose(one, torch.cat([expected[name]] * 2, 2), atol=1e-6)
    assert torch.allclose(compiled(x), model(x), atol=1e-6)


class BreaksTheGraph(nn.Module):
    """Attends where the graph of a compiled model is broken, in a loop, so that this part runs uncompiled."""

    def forward(self, x: Tensor) -> tuple[Tensor, object, object]:
        for _ in nn.Sequential(nn.Identity()):
            torch._dynamo.graph_break()
            facts = x.shape, x.device
        return F.scaled_dot_product_attention(x, x, x), *facts


@pytest.mark.long
@torch.no_grad()
def test_a_model_is_recorded_where_the_graph_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function of the mode must not be compiled on its own: the compiler confuses properties there."""
    monkeypatch.setattr(RecordingMode, "__torch_function__", unwrap(RecordingMode.__torch_function__))
    model, x = BreaksTheGraph(), torch.randn(2, 3, 5, 8)
    expected, *facts = model(x)
    with recording(model) as weights:
        context, *found = torch.compile(model, backend="eager")(x)
    assert found == facts and torch.equal(context, expected)
    assert weights[""].shape == (2, 3, 5, 5)
