"""The values that user-defined parts take and return are checked, beyond their shapes."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.attention import Attention, Dot, Mechanism, MultiHead, Score, Softmax, recording
from attention_lab.attention.checks.parts import check_parts
from attention_lab.attention.windows import Span
from attention_lab.errors import LabError

KEYS = torch.zeros(2, 7, 4)


@pytest.mark.parametrize("given", [lambda query: None, lambda query: query, lambda query: (query, None)])
@pytest.mark.parametrize("recorded", [False, True])
def test_features_are_two_tensors(given: Callable[[Any], Any], recorded: bool) -> None:
    """A single tensor of two examples was read as the features of the queries and those of the keys."""

    class Features(Score):
        def features(self, query: Any, keys: Any, mask: Any) -> Any:
            return given(query)

    attention = Attention(Features(4, 4))
    with (
        pytest.raises(LabError, match=r"^Features.features must return two tensors, .* not a"),
        recording(attention) if recorded else nullcontext(),
    ):
        attention(torch.zeros(2, 5, 4), attention.remember(KEYS))


def test_a_score_defines_its_formula() -> None:
    class Neither(Score):
        def keys(self, key: Any) -> Any:
            return key

    with pytest.raises(TypeError, match=r"^Neither must define forward\(query, keys\), or features\(query, "):
        Neither(4, 4)


class _Leaky(nn.Module):
    """Softmax over all keys, masked or not."""

    def forward(self, scores: Any, mask: Any) -> Any:
        return scores.softmax(-1)


class _Large(nn.Module):
    """The usual -1e9 in place of masked scores, which leaves a row without keys uniform."""

    def forward(self, scores: Any, mask: Any) -> Any:
        return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_normalizer_gives_masked_keys_no_weight(replaced: bool) -> None:
    query, padding = torch.zeros(2, 5, 4), torch.arange(7) < torch.tensor([7, 4]).view(2, 1, 1)
    leaky = Attention(Dot(4, 4), None if replaced else _Leaky())
    leaky.normalizer = _Leaky()  # type: ignore[assignment]
    leaky(query, leaky.remember(KEYS))  # nothing is masked
    leaky(query[:0], leaky.remember(KEYS[:0], mask=padding[:1] & (torch.arange(7) < 5)))  # no weights
    for masked in (leaky.remember(KEYS, mask=padding), leaky.remember(KEYS[:, :5], causal=True)):
        with pytest.raises(LabError, match=r"^_Leaky must give masked keys .* of 0, got 0\.\d+: .*~mask"):
            leaky(query, masked)
    careful = Attention(Dot(4, 4), _Large())
    assert careful(query, careful.remember(KEYS, mask=padding)).shape == query.shape
    careful = Attention(Dot(4, 4), _Large())
    with pytest.raises(LabError, match=r"^_Large must give masked keys a weight of 0"):
        careful(query, careful.remember(KEYS, mask=padding & (torch.arange(2) > 0).view(2, 1, 1)))


def test_the_normalizer_is_checked_where_tensors_have_values() -> None:
    """Under `vmap` the check waits for the first call that has values."""
    attention, mask = Attention(Dot(4, 4), _Leaky()), torch.arange(7).view(1, 7) < 4
    batched = torch.func.vmap(lambda query: attention(query, attention.remember(KEYS[0], mask=mask)))
    assert batched(torch.zeros(3, 5, 4)).shape == (3, 5, 4)
    with pytest.raises(LabError, match="must give masked keys a weight of 0"):
        attention(torch.zeros(5, 4), attention.remember(KEYS[0], mask=mask))


@pytest.mark.parametrize(
    ("part", "given", "complaint"),
    [
        (
            "normalizer",
            nn.Softmax(-1),
            r"Softmax of torch\.nn\..* does not take \(scores, mask\): .* Softmax\(\)",
        ),
        (
            "normalizer",
            nn.functional.softmax,
            r"softmax of torch\.nn\.functional does not take \(scores, mask\)",
        ),
        ("normalizer", torch.softmax, r"softmax of torch does not take \(scores, mask\)"),
        ("pooling", nn.Dropout(0.1), r"Dropout of .* does not take \(weights, value\): .* such as Soft\(\)"),
        (
            "window",
            lambda query, keys: Span(),
            r"does not take \(query, keys, visible, offset\): .* Global\(",
        ),
    ],
)
def test_parts_take_what_they_are_called_with(part: str, given: Any, complaint: str) -> None:
    """They ended in Python's or torch's errors about arguments that the user did not write."""
    with pytest.raises(TypeError, match=rf"^Attention\({part}=\.\.\.\): .*{complaint}"):
        check_parts(Dot(4, 4), **{part: given})


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_function_is_a_part_if_it_takes_the_arguments() -> None:
    attention: Any = Attention(Dot(4, 4), lambda scores, mask: scores.softmax(-1), torch.matmul)
    query, keys = torch.randn(2, 5, 4), torch.randn(2, 7, 4)
    context = attention(query, attention.remember(keys))
    assert torch.allclose(context, (query @ keys.mT).softmax(-1) @ keys, atol=1e-6)


def _ignoring_mask(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a function to what a normaliser is called with; it keeps its name."""

    @wraps(function)
    def adapted(*given: Any) -> Any:
        return function(given[-2])

    return adapted


class _Adapted(nn.Module):
    forward = _ignoring_mask(lambda scores: scores.softmax(-1))


class _Called(nn.Softmax):
    def __call__(self, scores: Any, mask: Any) -> Any:
        return super().__call__(scores)


def _hooked() -> nn.Module:
    module = nn.Softmax(-1)
    module.register_forward_pre_hook(lambda _, given: given[:1])
    return module


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    "normalizer", [_ignoring_mask(lambda scores: scores.softmax(-1)), _Adapted(), _Called(-1), _hooked()]
)
def test_an_adapted_function_is_a_part(normalizer: Any) -> None:
    """It takes other arguments than the function that it wraps or the module's forward."""
    attention, query = Attention(Dot(4, 4), normalizer), torch.randn(2, 5, 4)
    wanted = Attention(Dot(4, 4))(query, Attention(Dot(4, 4)).remember(KEYS))
    assert torch.allclose(attention(query, attention.remember(KEYS)), wanted, atol=1e-6)


class _WithoutHeads(Score):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)

    def forward(self, query: Any, keys: Any) -> Any:
        return query @ keys.mT


class _HeadsFirst(Softmax):
    def __init__(self, heads: int | None = None, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        self.heads = heads


@pytest.mark.parametrize("normalizer", [partial(_HeadsFirst, 3), partial(_HeadsFirst, heads=3), _HeadsFirst])
def test_heads_given_by_position_are_kept(normalizer: Any) -> None:
    made: Any = Mechanism(Dot, normalizer)(4, 4, heads=2).normalizer
    assert made.heads == (3 if getattr(normalizer, "args", ()) else 2)


class _NeedsMore(nn.Module):
    def __init__(self, query_size: int, heads: int | None, reach: int) -> None:
        super().__init__()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("parts", "argument", "note"),
    [
        ({"score": _WithoutHeads}, "heads", "_WithoutHeads with query_size, key_size, heads"),
        ({"score": lambda query, keys: query @ keys.mT}, "query_size", "with query_size, key_size, heads"),
        ({"score": Dot, "window": _NeedsMore}, "reach", "_NeedsMore with query_size, heads"),
        (
            {"score": Dot, "normalizer": partial(Softmax, T=2.0)},
            "T",
            "partial(Softmax, T=2.0) with no arguments",
        ),
        ({"score": Dot, "pooling": nn.Linear}, "in_features", "Linear with no arguments"),
    ],
)
def test_a_mechanism_says_what_its_parts_are_made_from(
    parts: dict[str, Any], argument: str, note: str
) -> None:
    """Python's error alone names only an argument, which the user did not give."""
    with pytest.raises(TypeError, match=f"'{argument}'") as raised:
        MultiHead(Mechanism(**parts), 8, 2)
    (line,) = raised.value.__notes__
    assert line.startswith(f"Mechanism({list(parts)[-1]}=...) makes its part by calling ") and note in line
