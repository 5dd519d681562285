"""Recordings inside recordings, copies of a model that is being recorded, and calls under `vmap`."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from two_attentions import Both

from attention_lab.attention import Attention, ScaledDot, recording


def test_a_recording_around_another_misses_nothing() -> None:
    model, x = Both(), torch.randn(2, 4, 8)
    with recording(model) as outer:
        model(x)
        with recording(model.ours, examples=0) as inner:
            model(x.flip(0))
        model(x)
    assert {name: one.shape for name, one in outer.items()} == {
        "theirs": (2, 2, 12, 4),
        "ours": (2, 2, 12, 4),
    }
    assert inner[""].shape == (1, 2, 4, 4)
    assert torch.equal(inner[""][0], outer["ours"][0, :, 4:8])
    assert model.ours.attention.record is None


def test_recordings_may_end_in_any_order() -> None:
    model, x = Both(), torch.randn(2, 4, 8)
    before = [{**module.__dict__} for module in model.modules()]
    first, second, third = (recording(model) for _ in range(3))
    one, two = first.__enter__(), second.__enter__()
    model(x)
    first.__exit__(None, None, None)
    three = third.__enter__()
    model(x)
    second.__exit__(None, None, None)
    model(x)
    third.__exit__(None, None, None)
    model(x)
    for weights, calls in ((one, 1), (two, 2), (three, 2)):
        assert {name: found.shape[2] for name, found in weights.items()} == {
            "theirs": 4 * calls,
            "ours": 4 * calls,
        }
    assert [module.__dict__ for module in model.modules()] == before
    assert not _get_current_function_mode_stack()  # type: ignore[no-untyped-call]


def test_the_middle_one_of_three_recordings_may_end_first() -> None:
    model, x = Both(), torch.randn(2, 4, 8)
    first, second, third = (recording(model) for _ in range(3))
    one, two, three = first.__enter__(), second.__enter__(), third.__enter__()
    second.__exit__(None, None, None)
    model(x)
    third.__exit__(None, None, None)
    model(x)
    first.__exit__(None, None, None)
    assert not two
    for weights, calls in ((one, 2), (three, 1)):
        assert {name: found.shape[2] for name, found in weights.items()} == {
            "theirs": 4 * calls,
            "ours": 4 * calls,
        }


class Fused(nn.Module):
    """Fused attention without a module of torch's."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


def test_a_function_is_recorded_until_its_own_recording_ends() -> None:
    models, x = (Fused(), Fused()), torch.randn(2, 1, 4, 8)
    first, second = (recording(model) for model in models)
    one, two = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    for model in models:
        model(x)
    second.__exit__(None, None, None)
    assert not one and two[""].shape == (2, 1, 4, 4)


def test_a_call_inside_another_recording_is_a_step_of_the_same_attention() -> None:
    model, x = Fused(), torch.randn(2, 4, 8)
    with recording(model) as weights:
        model(x)
        with recording(nn.Linear(8, 8)):
            model(x)
    assert {name: one.shape for name, one in weights.items()} == {"": (2, 1, 8, 4)}


def _saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded: nn.Module = torch.load(file, weights_only=False)
    return loaded


COPIES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "save": _saved,
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_computes_with_its_own_weights_and_is_not_recorded(how: str) -> None:
    model, x = Both(), torch.randn(2, 4, 8)
    with recording(model) as weights:
        model(x)
        again = COPIES[how](model)
        assert torch.equal(again(x), model(x))
        with torch.no_grad():
            for parameter in again.parameters():
                parameter.mul_(2)
        changed = again(x)
    plain = Both()
    plain.load_state_dict(again.state_dict())
    assert torch.equal(changed, plain(x))
    assert torch.equal(again(x), plain(x))
    assert torch.equal(copy.deepcopy(again)(x), plain(x))
    assert {name: one.shape[2] for name, one in weights.items()} == {"theirs": 8, "ours": 8}


def test_a_copy_of_a_module_with_a_forward_of_its_own() -> None:
    model, x = nn.MultiheadAttention(8, 2), torch.randn(4, 1, 8)
    method = model.forward
    model.forward = lambda query, key, value, **options: (2 * query, None)  # type: ignore[assignment, method-assign]
    with recording(model):
        again = copy.deepcopy(model)
    assert torch.equal(again(x, x, x)[0], 2 * x)
    assert method(x, x, x)[0].shape == x.shape


class ByHand(nn.Module):
    """Attention as a softmax and a product."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("make", [Both, ByHand])
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of PyTorch's fused kernels
def test_a_call_under_vmap_is_left_alone_with_a_warning(make: type[nn.Module]) -> None:
    model, x = make(), torch.randn(2, 4, 8)
    mapped = torch.func.vmap(lambda one: model(one.unsqueeze(0)).squeeze(0))
    wanted = mapped(x)
    with recording(model) as weights:
        with pytest.warns(UserWarning, match=r"recording: .*torch\.func\.vmap"):
            found = mapped(x)
        assert not weights
        model(x)
    assert torch.equal(found, wanted)
    assert all(one.shape[0] == 2 and one.isfinite().all() for one in weights.values())
    assert weights


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_layers_of_nested_tensors_are_not_followed(layout: torch.layout) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.attention = nn.Linear(8, 16), nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            x = x.tanh().clone() if layout is torch.strided else x.unflatten(-1, (2, 8)).flatten(-2)
            x = x.to_padded_tensor(0.0)  # type: ignore[operator]
            return self.attention(x, x, x)[0]  # type: ignore[no-any-return]

    nested = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=layout)
    with recording(model := Heads()) as weights:
        model(nested)
    assert weights["attention"].shape == (2, 2, 5, 5)


def test_products_under_vmap_that_are_no_attention_are_not_named() -> None:
    """Warnings are errors."""

    class Memory(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.func.vmap(lambda one: (one @ one.mT).relu() @ one)(x)  # type: ignore[no-any-return]

    with recording(model := Memory()) as weights:
        model(torch.randn(2, 5, 8))
    assert not weights


class SelfAttentionWithDropout(nn.Module):
    """An attention whose name ends like that of a module which only drops weights."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.softmax, self.dropout = nn.Linear(8, 8), MaskedSoftmax(), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.weights = self.softmax(self.project(x) @ x.mT)
        return self.dropout(self.weights) @ x  # type: ignore[no-any-return]


class MaskedSoftmax(nn.Module):
    """A softmax with a sink: a part of the module that calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(1, 1))

    def forward(self, scores: Tensor) -> Tensor:
        return torch.cat([scores, self.sink.expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]


class ScaledDotSoftmax(nn.Module):
    """An attention without parameters, whose name ends like that of a softmax."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


def test_names_of_classes_that_end_in_softmax_or_dropout() -> None:
    x = torch.randn(2, 4, 8)
    model = nn.Sequential(SelfAttentionWithDropout(), SelfAttentionWithDropout())
    with recording(model) as weights:
        model(x)
    assert list(weights) == ["0", "1"]
    assert torch.equal(weights["1"][:, 0], model[1].weights)
    for alone in (model[0], ScaledDotSoftmax()):
        with recording(alone) as weights:
            alone(x)
        assert {name: one.shape for name, one in weights.items()} == {"": (2, 1, 4, 4)}


class MadeAnew(nn.Module):
    """Makes its attention for each call, so that it is not a part of the model."""

    def forward(self, x: Tensor) -> Tensor:
        attention = Attention(ScaledDot(8, 8))
        return attention(x, attention.remember(x))  # type: ignore[no-any-return]


def test_an_attention_that_is_not_part_of_the_model_belongs_to_the_module_that_calls_it() -> None:
    model, x = nn.Sequential(MadeAnew(), MadeAnew()), torch.randn(2, 4, 8)
    with recording(model) as weights:
        model(x)
    assert list(weights) == ["0", "1"]
    torch.testing.assert_close(weights["0"][:, 0], (x @ x.mT / 8**0.5).softmax(-1))
