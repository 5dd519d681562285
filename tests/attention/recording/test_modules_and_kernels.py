"""Which calls of which modules are attention, and what cannot be recorded."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import ATTENDS, B, D, H, L, Layer, inputs, model_of

from attention_lab.attention import Attention, ScaledDot, recording


def test_two_attentions_in_one_module() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = F.scaled_dot_product_attention(x, x, x)
            for _ in range(2):  # one place: calls of the same attention
                y = y + F.scaled_dot_product_attention(y, x[..., :3, :], x[..., :3, :])
            return y

    with recording(Two()) as weights:
        Two()(inputs())
        assert not weights, "another model"
    model = Two()
    with recording(model) as weights:
        model(inputs())
    assert {name: one.shape for name, one in weights.items()} == {"": (B, 1, L, L), "#2": (B, 1, 2 * L, 3)}


def test_a_softmax_that_is_no_attention() -> None:
    class Features(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            """Linear attention, a soft embedding, and a gate."""
            table = nn.Parameter(torch.randn(H * D, 5))
            linear = x.softmax(-1) @ (x.softmax(-2).mT @ x)
            return (linear.softmax(-1) @ table).softmax(-1)

    model = Features()
    with recording(model) as weights:
        model(inputs())
    assert not weights


def test_our_own_attention_is_recorded_once() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ours = Attention(ScaledDot(H * D, H * D))
            self.theirs = Layer(ATTENDS["fused"])

        def forward(self, x: Tensor) -> Tensor:
            return self.ours(x, self.ours.remember(self.theirs(x)))  # type: ignore[no-any-return]

    model = Both()
    with recording(model) as weights:
        model(inputs())
    assert {name: one.shape for name, one in weights.items()} == {
        "theirs": (B, H, L, L),
        "ours": (B, 1, L, L),
    }


def test_checkpointing_records_once() -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = model_of("fused"), inputs().requires_grad_()
    with recording(model) as weights:
        checkpoint(model, x, use_reentrant=False).sum().backward()
    assert [one.shape[2] for one in weights.values()] == [L, L]


def test_an_error_leaves_nothing_behind() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1)

        def forward(self, x: Tensor) -> Tensor:
            self.encoder(x)
            raise OSError

    model = Broken()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(OSError), recording(model):  # noqa: PT011
        model(torch.randn(1, 2, 8))
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before
    assert torch.overrides._get_current_function_mode_stack() == []


@contextmanager
def _operator() -> Iterator[Any]:
    library = torch.library.Library("attention_lab_tests", "DEF")
    library.define("flash_attn(Tensor q, Tensor k, Tensor v) -> Tensor")
    library.impl("flash_attn", lambda q, k, v: v.clone(), "CPU")
    try:
        yield torch.ops.attention_lab_tests.flash_attn
    finally:
        library._destroy()


def test_an_opaque_kernel_is_named_once() -> None:
    with _operator() as operator:
        ATTENDS["opaque"] = lambda layer, q, k, v: operator(q, k, v)
        model = model_of("opaque")
        del ATTENDS["opaque"]
        with torch.no_grad(), warnings.catch_warnings(record=True) as caught, recording(model) as weights:
            warnings.simplefilter("always")
            model(inputs())
    assert not weights
    (message,) = [str(one.message) for one in caught]
    assert message.startswith("recording: '0' computes attention in torch.ops.attention_lab_tests.flash_attn")
    assert "scaled_dot_product_attention" in message


def test_a_compiled_model_says_so_and_computes_the_same() -> None:
    model = torch.compile(model_of("fused").eval(), backend="eager")
    with torch.no_grad():
        plain = model(inputs())
        with (
            pytest.warns(UserWarning, match=r"a compiled graph.*before torch.compile"),
            recording(model) as weights,
        ):
            assert torch.equal(model(inputs()), plain)
    assert not weights
    assert isinstance(model, nn.Module)
    torch.compiler.reset()
