"""The classes that modules get which call `scaled_dot_product_attention` and have a mechanism."""

import copy
import pickle
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fused_callers import Caller, Model, OneHead, inputs
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

from attention_lab import recording, replace_attention
from attention_lab.attention import Additive, Mechanism, ScaledDot, Sigmoid
from attention_lab.attention.replacing.scaled_dot_product import _Mode

SAME = Mechanism(ScaledDot)
OTHER = Mechanism(ScaledDot, normalizer=Sigmoid)


class Outer(Caller):
    """Attends, and contains another module that does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Caller()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(x + self.inner(x))
        return output


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", [Mechanism(Additive), SAME])
def test_a_module_that_attends_may_contain_others(mechanism: Mechanism, unchecked_shapes: None) -> None:
    model, x = Model(Outer), inputs(3, 7)
    before = model(x)
    new = replace_attention(model, mechanism, x)
    assert list(new) == ["layers.0.inner", "layers.0", "layers.1.inner", "layers.1"]
    after = model(x)
    assert torch.allclose(after, before, atol=1e-5) == (mechanism is SAME)
    with recording(model) as weights:
        assert torch.equal(model(x), after)
    assert [*weights] == [*new]
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), after)


class BreaksTheGraph(Caller):
    """Breaks the graph of a compiled model in a loop, so that this part runs uncompiled."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in nn.Sequential(nn.Identity()):
            torch._dynamo.graph_break()
            turned, size = x.mT, x.shape
        output: Tensor = super().forward(turned.mT.view(size))
        return output


@pytest.mark.long
@torch.no_grad()
def test_a_replaced_model_may_break_the_graph(
    unchecked_shapes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function of the mode must not be compiled on its own: the compiler confuses properties there."""
    monkeypatch.setattr(_Mode, "__torch_function__", unwrap(_Mode.__torch_function__))
    model, x = Model(BreaksTheGraph), inputs(3, 7)
    replace_attention(model, OTHER, x)
    torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))


class Stepping(Caller):
    """Attends in other methods than its forward pass, too."""

    def step(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, 4, -1)).movedim((-3, -2), (0, -3))
        context = F.scaled_dot_product_attention(query, key, value)
        output: Tensor = self.output(context.transpose(-2, -3).flatten(-2))
        return output

    def choose(self) -> Any:
        return F.scaled_dot_product_attention

    def steps(self, x: Tensor) -> Tensor:
        x, one = self.step(x), x.unsqueeze(0)[..., :4]
        return x + F.scaled_dot_product_attention(one, one, one).sum()


def test_other_methods_attend_by_the_mechanism_too() -> None:
    model, x = Model(Stepping), inputs(3, 7)
    layer: Any = model.layers[0]
    before = layer.step(x)
    replace_attention(model, OTHER, x)
    assert torch.equal(layer.step(x), layer(x)) and not torch.allclose(layer(x), before, atol=1e-3)
    assert layer.choose() is F.scaled_dot_product_attention
    with pytest.raises(
        ValueError, match="Stepping has called scaled_dot_product_attention 2 times in `steps`, i"
    ):
        layer.steps(x)


class ByBase(OneHead):
    """Attends in methods that call those of its bases, which the derived class does not replace."""

    def by_super(self, x: Tensor) -> Tensor:
        return super().forward(x)

    def by_name(self, x: Tensor) -> Tensor:
        return OneHead.forward(self, x)


class ByBaseAgain(ByBase):
    """The same, by methods that are themselves inherited."""

    def by_two(self, x: Tensor) -> Tensor:
        return super().by_super(x)

    def forward(self, x: Tensor) -> Tensor:
        return ByBase.by_name(self, x)


@pytest.mark.parametrize("method", ["by_super", "by_name", "by_two"])
def test_methods_that_call_those_of_a_base_attend_by_the_mechanism(
    method: str, unchecked_shapes: None
) -> None:
    model, x = Model(ByBaseAgain), inputs(3, 7)
    layer: Any = model.layers[0]
    before = getattr(layer, method)(x)
    torch.testing.assert_close(before, layer(x))
    replace_attention(model, OTHER, x)
    after = getattr(layer, method)(x)
    torch.testing.assert_close(after, layer(x))
    assert not torch.allclose(after, before, atol=1e-3)


class CallingForward(Model):
    """Calls the method of its layers rather than the layers."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer.forward(x)
        return x


def test_layers_may_be_called_by_their_method() -> None:
    model, usual, x = CallingForward(), Model(), inputs(3, 7)
    usual.load_state_dict(model.state_dict())
    assert list(replace_attention(model, OTHER, x)) == ["layers.0", "layers.1"]
    replace_attention(usual, OTHER, x)
    assert torch.equal(model(x), usual(x))


class Checkpointed(Caller):
    """Its attention alone is computed again in the backward pass."""

    reentrant = False

    def heads(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        if not self.training:
            return self.heads(query, key, value)
        context: Tensor = checkpoint(self.heads, query, key, value, use_reentrant=self.reentrant)
        return context


class Reentrant(Checkpointed):
    """The same, in the older way."""

    reentrant = True


class ByFunction(Checkpointed):
    """The same, without a method that calls the function."""

    @property
    def heads(self) -> Any:  # type: ignore[override]
        return lambda query, key, value: F.scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize("build", [Checkpointed, Reentrant])
def test_attention_that_is_computed_again_has_the_same_gradients(build: Callable[[], nn.Module]) -> None:
    model, x = Model(build), inputs(3, 7).requires_grad_()
    replace_attention(model, OTHER, x)
    expected = torch.autograd.grad(model.eval()(x).square().sum(), [x, *model.parameters()])
    model.train()(x).square().sum().backward()
    for one, gradient in zip((x, *model.parameters()), expected, strict=True):
        torch.testing.assert_close(one.grad, gradient)


def test_attention_that_would_be_computed_again_without_the_mechanism_is_an_error() -> None:
    model, x = Model(ByFunction), inputs(3, 7)
    replace_attention(model, OTHER, x)
    with pytest.raises(ValueError, match="ByFunction checkpoints its attention alone, which the backward"):
        model.train()(x)
    assert checkpoint(model.eval(), x, use_reentrant=False).isfinite().all()


KINDS: list[type[nn.Module]] = []


class Listed(Caller):
    """Keeps a list of its subclasses, which need an option."""

    def __init_subclass__(cls, *, listed: bool, **options: Any) -> None:
        super().__init_subclass__(**options)
        KINDS.append(cls)


class OneListed(Listed, listed=True):
    """A subclass."""


def test_a_class_does_not_list_the_derived_one() -> None:
    model, x = Model(OneListed), inputs(3, 7)
    replace_attention(model, OTHER, x)
    assert [OneListed] == KINDS and isinstance(model.layers[0], OneListed)


class Rebuilt(Caller):
    """Is copied as it is built."""

    def __new__(cls, size: int) -> Any:
        return super().__new__(cls)

    def __init__(self, size: int) -> None:
        super().__init__()

    def __getnewargs__(self) -> tuple[int]:
        return (3,)


class Loaded(Caller):
    """Is copied from its own weights."""

    def __reduce__(self) -> Any:
        return _loaded, (self.project.state_dict(), self.output.state_dict())


def _loaded(project: dict[str, Tensor], output: dict[str, Tensor]) -> nn.Module:
    module = Loaded()
    module.project.load_state_dict(project)
    module.output.load_state_dict(output)
    return module


@pytest.mark.parametrize("build", [lambda: Rebuilt(3), Loaded])
def test_modules_are_copied_in_their_own_way(build: Callable[[], nn.Module]) -> None:
    model, x = Model(build), inputs(3, 7)
    replace_attention(model, Mechanism(Additive), x)
    expected = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), expected)
        assert other.layers[0].mechanism is not model.layers[0].mechanism


class Fresh(Caller):
    """Forgets in copies what it has not been built with."""

    def __deepcopy__(self, memo: Any) -> nn.Module:
        return type(self)()


def test_a_copy_without_its_mechanism_is_an_error() -> None:
    model, x = Model(Fresh), inputs(3, 7)
    replace_attention(model, OTHER, x)
    other = copy.deepcopy(model)
    with pytest.raises(TypeError, match="Fresh has no mechanism; a copy may lose it if its"):
        other(x)
    replace_attention(other, OTHER, x)
    assert other(x).isfinite().all()


def test_generated_code_is_rejected() -> None:
    class Attending(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x)

    model = nn.Sequential(fx.symbolic_trace(Attending()))
    with pytest.raises(ValueError, match="is generated code: replace the attention of the model that it is"):
        replace_attention(model, SAME, inputs(3, 7))
