"""What `replace_attention` rejects in modules that call `scaled_dot_product_attention`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from fused_callers import CALLERS, HEADS, SIZE, Caller, Cross, Model, inputs, visible
from torch import Tensor, nn

from attention_lab import replace_attention
from attention_lab.attention import Band, LocalP, Location, Mechanism, QueryFree, ScaledDot, Score
from attention_lab.attention.replacing.scaled_dot_product import attend

SAME = Mechanism(ScaledDot)
BAND = Mechanism(ScaledDot, window=partial(Band, width=2))


def test_modules_that_would_be_left_out_are_an_error() -> None:
    text = (
        "Model does not call scaled_dot_product_attention in 2 of its attentions, such as layers.0, without"
    )
    model = Model()
    remedy = "give inputs or set an option so that it does, or make hand-written attention"
    with pytest.raises(ValueError, match=f"{text} inputs: {remedy} call it; or choose others with names="):
        replace_attention(model, SAME)
    assert type(model.layers[0]) is Caller
    mixed = nn.ModuleDict({"torch": nn.MultiheadAttention(SIZE, HEADS), "fused": Caller()})
    with pytest.raises(ValueError, match=r"such as fused, without inputs"):
        replace_attention(mixed, SAME)
    assert list(replace_attention(mixed, SAME, names=["torch"])) == ["torch"]

    class Half(Model):
        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.layers[0](x)
            return output

    with pytest.raises(
        ValueError, match=r"in 1 of its attentions, such as layers.1, with these inputs: give"
    ):
        replace_attention(Half(), SAME, inputs(3, 7))
    assert list(replace_attention(Half(), SAME, inputs(3, 7), names=["layers.0"])) == ["layers.0"]
    with pytest.raises(ValueError, match=r"in 1 of its attentions, such as the model itself, without inputs"):
        replace_attention(Caller(), SAME)


class Twice(Caller):
    """Attends twice in a forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(super().forward(x))
        return output


class InParts(Caller):
    """Calls its own forward pass for each example."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1:
            return super().forward(x)
        return torch.cat([self.forward(part) for part in x.split(1)])


class Containing(Caller):
    """Attends, and contains a module of torch that does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(self.inner(x, x, x)[0])
        return output


class Taken(Caller):
    """Has something else of the name of the new part."""

    def __init__(self) -> None:
        super().__init__()
        self.mechanism = nn.Linear(2, 2)


def _patched() -> nn.Module:
    caller = Caller()
    caller.forward = caller.forward  # type: ignore[method-assign]
    return caller


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (Twice, ValueError, "Twice calls scaled_dot_product_attention several times in a forward pass, but"),
        (
            InParts,
            ValueError,
            "InParts calls scaled_dot_product_attention several times in a forward pass, but",
        ),
        (Containing, ValueError, "Containing calls scaled_dot_product_attention and contains inner, whose"),
        (_patched, ValueError, "the forward method of a Caller is replaced already, as accelerate does"),
        (Taken, TypeError, "the mechanism of Taken is a Linear, which hides the attention in it"),
    ],
)
def test_modules_that_cannot_have_a_mechanism(
    build: Callable[[], nn.Module], error: type[Exception], message: str
) -> None:
    model, x = Model(build), inputs(3, 7)
    kinds = [type(one) for one in model.modules()]
    expected = model(x)
    with pytest.raises(error, match=message):
        replace_attention(model, SAME, x)
    assert [type(one) for one in model.modules()] == kinds and torch.equal(model(x), expected)


def test_attention_by_other_means_is_not_left_to_run_in_silence() -> None:
    class Switched(Caller):
        fused = True

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.fused else x

    model, x = Model(Switched), inputs(3, 7)
    replace_attention(model, SAME, x)
    model(x)
    model.layers[1].fused = False
    with pytest.raises(
        ValueError, match="Switched has called scaled_dot_product_attention 0 times in a forwa"
    ):
        model(x)


def test_a_window_needs_the_positions_of_the_queries() -> None:
    x = inputs(3, 7)
    model = Model(Cross)
    replace_attention(model, BAND, x)
    with pytest.raises(
        ValueError, match="Band needs the positions of the queries, which scaled_dot_product_"
    ):
        model(x)
    model = Model(CALLERS["cross, causal"])  # the keys after the last query do not count
    replace_attention(model, BAND, x)
    assert model(x).isfinite().all()

    def hidden(length: int) -> dict[str, Any]:
        return {"attn_mask": ~visible(length, length)}

    model = Model(lambda: Caller(hidden))
    replace_attention(model, Mechanism(ScaledDot, window=LocalP), x)
    with pytest.raises(
        ValueError, match="LocalP counts positions from the first key, which this attention hi"
    ):
        model(x)


@pytest.mark.parametrize("score", [Location, QueryFree])
def test_a_score_of_positions_needs_the_first_key(score: type[Score]) -> None:
    """Padding on the left hides it from every query; a mask that slides, only from later ones."""
    x, shown = inputs(3, 7), torch.ones(7, 7, dtype=torch.bool).tril().triu(-2)
    model = Model(lambda: Caller(lambda _: {"attn_mask": shown}))
    replace_attention(model, Mechanism(score), x)
    assert model(x).isfinite().all()
    shown = torch.arange(7) >= torch.tensor([0, 0, 2])[:, None, None, None]
    with pytest.raises(
        ValueError, match=f"{score.__name__} counts positions from the first key, which this attention hi"
    ):
        model(x)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_rejected() -> None:
    module = Caller()
    replace_attention(nn.Sequential(module), SAME, inputs(3, 7))
    nested = torch.nested.nested_tensor([torch.randn(HEADS, 5, 4), torch.randn(HEADS, 3, 4)])
    with pytest.raises(TypeError, match="a mechanism does not take nested tensors: pad them"):
        attend(module, nested, nested, nested)
