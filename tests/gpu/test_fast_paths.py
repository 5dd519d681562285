"""Every fast path at sizes where it is taken, on the GPU, against the formula in float64 on the CPU."""

from collections.abc import Callable, Sequence

import pytest
import torch
from every_dtype import ERRORS, every_dtype
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Entmax15,
    General,
    Linear,
    Mechanism,
    MultiHead,
    Normalizer,
    Packing,
    ScaledDot,
    Score,
    lengths_mask,
)
from attention_lab.attention.fast.additive import chunks, scores
from attention_lab.attention.fast.additive.forms import FORMS, LOGISTIC
from attention_lab.attention.fast.dispatch import fast_path
from attention_lab.attention.fast.gaussian.regression import gaussian_reference, gaussian_regression
from attention_lab.attention.memory import Call
from attention_lab.models.parts.encoder import Encoder

pytestmark = pytest.mark.gpu


def _drawn(*shapes: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
    """Tensors in float64 on the CPU that a precision represents exactly."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).to(dtype).double() for shape in shapes]


def _results(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The value, and the gradients of a combination of its numbers."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    value = function(*leaves)
    direction = torch.cos(torch.arange(value.numel(), dtype=torch.float64)).view(value.shape).to(value)
    return [value.detach(), *torch.autograd.grad((value * direction).sum(), leaves)]


def _compare(found: Sequence[Tensor], wanted: Sequence[Tensor], tolerance: float) -> None:
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        error = (got.cpu().double() - want).abs().max() / want.abs().max()
        assert error <= tolerance * (3 if number else 1), (number, float(error))  # a NaN is not


def _moved(tensors: Sequence[Tensor], device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    return [x.to(device, dtype) for x in tensors]


@every_dtype
@pytest.mark.parametrize("activation", FORMS)
@pytest.mark.parametrize("per_example", [False, True])
def test_additive_scores(
    activation: str, per_example: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """Sizes that fill no tile, above those that take the plain formula."""
    examples, queries, keys, hidden = 3, 101, 77, 67
    assert examples * queries * keys * hidden > chunks.CHUNK
    weight = (examples, hidden) if per_example else (hidden,)
    inputs = _drawn((examples, queries, hidden), (examples, keys, hidden), weight, dtype=dtype)
    wanted = _results(lambda a, b, w: scores.reference(a, b, w, activation), inputs)
    mine = _moved(inputs, device, dtype)
    if device.type == "cuda" and dtype == torch.float32:
        path = scores.plan(mine[0], mine[1], activation, None).path
        assert path == ("triton" if activation in LOGISTIC else "chunks")
    _compare(
        _results(lambda a, b, w: scores.additive_scores(a, b, w, activation), mine), wanted, ERRORS[dtype]
    )


@pytest.mark.parametrize("activation", LOGISTIC)
def test_additive_scores_of_poison_and_of_huge_numbers(activation: str, device: torch.device) -> None:
    """A NaN stays in its column, whatever the other keys are."""
    a, b, w = _moved(_drawn((2, 90, 64), (2, 80, 64), (64,), dtype=torch.float32), device, torch.float32)
    a[0, 0], b[0, 0], b[1, 3] = 1e4, -1e4, torch.nan
    assert a.shape[0] * 90 * 80 * 64 > scores.SMALL
    found = scores.additive_scores(a, b, w, activation).cpu()
    wanted = scores.reference(*(x.cpu().double() for x in (a, b, w)), activation)
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.allclose(found.nan_to_num().double(), wanted.nan_to_num(), atol=1e-4)


@pytest.mark.parametrize(
    ("features", "tolerance", "width"),
    [
        *((1, bound, width) for bound in (None, 1e-6) for width in (0.3, 10.0, 1e3)),
        (3, None, 0.3),
        (3, None, 10.0),
    ],
)
def test_gaussian_regression(
    features: int, tolerance: float | None, width: float, device: torch.device
) -> None:
    """Leave-one-out, with the gradient of w alone and of everything."""
    keys, values = _drawn((1200, features), (1200, 2), dtype=torch.float32)
    index, widths = torch.arange(1200), torch.full((1,), width, dtype=torch.float64)

    def both(function: Callable[..., Tensor], place: torch.device, dtype: torch.dtype) -> list[Tensor]:
        x, y, w, own = (
            keys.to(place, dtype),
            values.to(place, dtype),
            widths.to(place, dtype),
            index.to(place),
        )
        return [
            *_results(lambda w: function(x, x, y, w, own), [w]),
            *_results(lambda x, y, w: function(x, x, y, w, own), [x, y, w])[1:],
        ]

    def ours(*arguments: Tensor) -> Tensor:
        return gaussian_regression(*arguments, tolerance)

    wanted = both(gaussian_reference, torch.device("cpu"), torch.float64)
    _compare(both(ours, device, torch.float32), wanted, 2e-5)


def _attention(
    score: type[Score], normalizer: Normalizer | None = None, width: int | None = None
) -> Attention:
    torch.manual_seed(0)
    window = None if width is None else Band(16, width=width)
    return Attention(score(16, 16, 2), normalizer, window=window).double()


PATHS: dict[str, Callable[[], Attention]] = {
    "band": lambda: _attention(ScaledDot, width=16),
    "band of general": lambda: _attention(General, width=16),
    "strips": lambda: _attention(ScaledDot, Entmax15(), 16),
    "strips of additive": lambda: _attention(Additive, width=16),
    "linear": lambda: _attention(Linear),
    "fused": lambda: _attention(ScaledDot),
    "fused general": lambda: _attention(General),
}


@every_dtype
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_a_path_equals_the_weights_of_all_pairs(
    path: str, causal: bool, padded: bool, dtype: torch.dtype, device: torch.device
) -> None:
    """Values and gradients, with NaN in the padding; an example without a key is zero in both."""
    length = 389
    exact = PATHS[path]().to(dtype).double()
    mine = PATHS[path]().to(device, dtype)
    mine.load_state_dict(exact.state_dict())
    inputs = _drawn(*[(3, 2, length, 16)] * 3, dtype=dtype)
    mask = lengths_mask(torch.tensor([length, 0, 211]), length).unsqueeze(1) if padded else None

    def by_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        memory = exact.remember(key, value, mask, causal=causal)
        return exact.weights(query, memory) @ value

    wanted = _results(by_weights, inputs)
    moved, visible = _moved(inputs, device, dtype), None if mask is None else mask.to(device)
    if visible is not None:
        moved[1:] = [x.masked_fill(~visible.mT, torch.nan) for x in moved[1:]]

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        memory = mine.remember(key, value, visible, causal=causal)
        taken = fast_path(mine, Call(mine.window, query, memory))
        assert taken is not None and taken.name == path.split()[0]
        context: Tensor = mine(query, memory)
        return context

    found = _results(attend, moved)
    _compare(found, wanted, ERRORS[dtype])
    if padded:
        assert not any(x[1].any() for x in found)


@every_dtype
@pytest.mark.parametrize("masked", [False, True])
def test_one_column_for_all_keys(masked: bool, dtype: torch.dtype, device: torch.device) -> None:
    """A bias that adds the same to all scores of a query, and a mask that hides all of its keys or none."""
    inputs = _drawn(*[(3, 2, 40, 16)] * 3, (2, 40, 1), dtype=dtype)
    column = torch.arange(3 * 40).view(3, 1, 40, 1) % 3 > 0 if masked else None
    exact, mine = _attention(ScaledDot), _attention(ScaledDot).to(device, dtype)

    def by_weights(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        return exact.weights(query, exact.remember(key, value, column)) @ value + 0 * bias.sum()

    def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        mask = None if column is None else column.to(device)
        context: Tensor = mine(query, mine.remember(key, value, mask), bias=bias)
        return context

    wanted, found = _results(by_weights, inputs), _results(attend, _moved(inputs, device, dtype))
    _compare(found[:-1], wanted[:-1], ERRORS[dtype])
    assert found[-1].abs().max() < 0.1  # the gradient of the bias is 0 up to rounding


@every_dtype
def test_a_padded_encoder_equals_the_packed_one(dtype: torch.dtype, device: torch.device) -> None:
    """The content of padding affects no output and no gradient; on the CPU nothing is computed there."""
    torch.manual_seed(0)
    spec = {"d_model": 32, "heads": 2, "layers": 2, "feedforward": 64, "dropout": 0.0}
    encoder = Encoder(Mechanism(ScaledDot), **spec).to(dtype).double()
    mine = Encoder(Mechanism(ScaledDot), **spec).to(device, dtype)
    mine.load_state_dict(encoder.state_dict())
    (x,), lengths = _drawn((5, 150, 32), dtype=dtype), torch.tensor([150, 3, 77, 1, 120])
    inside = (torch.arange(150) < lengths[:, None]).unsqueeze(-1)

    def results(module: nn.Module, x: Tensor, lengths: Tensor, inside: Tensor) -> list[Tensor]:
        parameters = dict(module.named_parameters())

        def forward(x: Tensor, *values: Tensor) -> Tensor:
            given = dict(zip(parameters, values, strict=True))
            output = torch.func.functional_call(module, given, (x, lengths))
            return output.masked_fill(~inside, 0.0)

        return _results(forward, [x, *parameters.values()])

    wanted = results(encoder, x * inside, lengths, inside)
    moved = x.to(device, dtype).masked_fill(~inside.to(device), 1e3)
    found = results(mine, moved, lengths.to(device), inside.to(device))
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        error = float((got.cpu().double() - want).norm() / want.norm())
        # In half precision some of the hidden units near 0 are rounded to the other side of their ReLU.
        assert error <= {torch.float32: 1e-5, torch.float16: 0.08, torch.bfloat16: 0.2}[dtype], (
            number,
            error,
        )


@every_dtype
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[300, 50, 120], [7, 1, 12]], ids=["one by one", "as a padded batch"])
def test_sequences_without_padding(
    lengths: list[int], causal: bool, dtype: torch.dtype, device: torch.device
) -> None:
    torch.manual_seed(0)
    layer = MultiHead(Mechanism(ScaledDot), 128, 4).to(dtype).double()
    inputs = _drawn((sum(lengths), 128), dtype=dtype)

    def alone(x: Tensor) -> Tensor:
        return torch.cat([layer(one[None], causal=causal)[0] for one in x.split(lengths)])

    def together(x: Tensor) -> Tensor:
        y: Tensor = layer(x, packing=Packing.of_lengths(lengths, device), causal=causal)
        return y

    wanted = _results(alone, inputs)
    layer.to(device, dtype)
    _compare(_results(together, _moved(inputs, device, dtype)), wanted, ERRORS[dtype])
