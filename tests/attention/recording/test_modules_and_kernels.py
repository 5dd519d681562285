"""Which calls of which modules are attention, and what cannot be recorded."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import ATTENDS, B, D, H, L, Layer, inputs, model_of

from attention_lab.attention import Additive, Attention, Mechanism, MultiHead, ScaledDot, Score, recording
from attention_lab.attention.recorder import Selection
from attention_lab.attention.recording.weights import KernelCall
from attention_lab.attention.torch_state import recomputing


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


@pytest.mark.long
def test_whether_the_backward_pass_is_running_can_be_asked_in_compiled_code() -> None:
    compiled = torch.compile(lambda x: -x if recomputing() else x, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("score", [ScaledDot, Additive])  # whose weights are looked at, and added
def test_checkpointing_our_own_attention_records_once(score: type[Score], reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = MultiHead(Mechanism(score), 8, 2), torch.randn(2, 5, 8, requires_grad=True)
    with recording(model) as weights:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert weights["attention"].shape == (2, 2, 5, 5)


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


@pytest.mark.parametrize("in_place", [False, True], ids=["wrapped", "in place"])
def test_a_compiled_model_is_recorded_while_it_runs_uncompiled(in_place: bool) -> None:
    plain = model_of("fused").eval()
    with recording(plain) as wanted:
        plain(inputs())
    if in_place:
        plain.compile(backend="eager")
    model = plain if in_place else torch.compile(plain, backend="eager")
    assert isinstance(model, nn.Module)
    with torch.no_grad():
        model(inputs())
        with torch.compiler.set_stance("force_eager"), recording(model) as weights:
            model(inputs())
    assert [name.removeprefix("_orig_mod.") for name in weights] == list(wanted)
    for one, other in zip(weights.values(), wanted.values(), strict=True):
        assert torch.equal(one, other)
    torch.compiler.reset()


def test_a_traced_model_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.trace(model_of("fused").eval(), inputs(), check_trace=False)
    with pytest.warns(UserWarning, match=r"traced module.*before torch.jit"), recording(model) as weights:
        assert model(inputs()).shape == (B, L, H * D)
    assert not weights


def test_nested_tensors_are_padded() -> None:
    parts = [torch.randn(3, H * D), torch.randn(5, H * D)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)

    class Ragged(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = x.unflatten(-1, (H, D)).transpose(1, 2)
            return F.scaled_dot_product_attention(q, q, q)

    model = Ragged()
    with warnings.catch_warnings(), recording(model) as weights:
        warnings.filterwarnings("ignore", ".*nested tensors")
        output = model(nested)
    for number, (part, one) in enumerate(zip(parts, output.unbind(), strict=True)):
        value = part.unflatten(-1, (H, D)).transpose(0, 1)
        seen = weights[""][number, :, : len(part), : len(part)]
        assert torch.allclose(seen @ value, one, atol=1e-6)
        assert weights.mask("")[number, 0].sum(-1)[0] == len(part)


@pytest.mark.parametrize("kind", ["none", "causal", "mask", "bias"])
def test_weights_are_the_same_in_blocks_of_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 7, 4), torch.randn(2, 3, 5, 4)
    mask = {
        "mask": torch.rand(2, 1, 7, 5) < 0.6,
        "bias": torch.randn(7, 5).masked_fill(torch.eye(7, 5) > 0, -torch.inf),
    }
    call = KernelCall(query, key, 0.5, mask.get(kind), kind == "causal")
    selection = Selection(queries=[1, 4, 2, 6, 0])
    weights, visible = call.weights(selection)
    monkeypatch.setattr(sys.modules[KernelCall.__module__], "BLOCK", 2 * 2 * 3 * 5)
    in_blocks, visible_in_blocks = call.weights(selection)
    assert torch.allclose(in_blocks, weights, atol=1e-6)
    assert (visible is None) == (visible_in_blocks is None) == (kind == "none")
    assert visible is None or torch.equal(visible_in_blocks, visible)


def test_our_own_attention_called_with_other_batches_has_other_names() -> None:
    """As with the smaller last batch of an epoch."""
    layer = MultiHead(Mechanism(ScaledDot), size=8, heads=2)
    batches = [torch.randn(3, 4, 8), torch.randn(2, 5, 8), torch.randn(3, 6, 8)]
    with recording(layer) as weights:
        for batch in batches:
            layer(batch)
    assert {name: list(one.shape) for name, one in weights.items()} == {
        "attention": [3, 2, 10, 6],
        "attention#2": [2, 2, 5, 5],
    }
    assert weights.mask("attention#2").all() and not weights.mask("attention").all()
    assert torch.allclose(weights["attention#2"], _alone(layer, batches[1]))


def _alone(layer: MultiHead, batch: Tensor) -> Tensor:
    with recording(layer) as weights:
        layer(batch)
    return weights["attention"]


@pytest.mark.parametrize("examples", [(), (3,), (2, 4)])
def test_grouped_heads_are_in_the_third_dimension_from_the_end(examples: tuple[int, ...]) -> None:
    """Also without a dimension of examples, and where one of examples has the number of heads as its size."""

    class Grouped(nn.Module):
        num_heads = 4

        def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, key, mask, enable_gqa=True)

    query, key = torch.randn(*examples, 4, L, D), torch.randn(*examples, 2, L + 1, D)
    mask = torch.rand(*examples, 4, L, L + 1) > 0.3
    mask[..., 0] = True
    model = Grouped()
    with recording(model) as weights:
        model(query, key, mask)
    scores = query.double() @ key.double().repeat_interleave(2, -3).mT / D**0.5
    expected = scores.masked_fill(~mask, -torch.inf).softmax(-1).reshape(-1, 4, L, L + 1)
    torch.testing.assert_close(weights[""].double(), expected, atol=1e-6, rtol=0)
    assert torch.equal(weights.mask(""), mask.reshape(expected.shape))
