"""The path that a choice of parts leads to; that all paths give the same is tested beside each of them."""

from functools import partial
from typing import Any

import pytest
import torch
from counted_operators import Operators
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_lab.attention import (
    Additive,
    Band,
    Gaussian,
    Hard,
    Linear,
    LocalP,
    Location,
    Mechanism,
    ScaledDot,
    Sigmoid,
    SinkSoftmax,
    Softmax,
)
from attention_lab.attention.fast.dispatch import fast_path
from attention_lab.attention.memory import Call

LENGTH, SIZE = 256, 4
NARROW = partial(Band, width=2)
PADDING = (torch.arange(LENGTH) < LENGTH - 1).expand(1, LENGTH)
PER_QUERY = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(3)


def _path(mechanism: Mechanism, *, training: bool = False, dropout: float = 0.0, **call: Any) -> str | None:
    attention = mechanism(SIZE, SIZE, dropout=dropout).train(training)
    x = torch.randn(LENGTH, SIZE, generator=torch.Generator().manual_seed(0))
    memory = attention.remember(x, mask=call.pop("mask", None), causal=call.pop("causal", False))
    path = fast_path(attention, Call(attention.window, x, memory, **call))
    return None if path is None else path.name


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (Mechanism(ScaledDot), "fused"),
        (Mechanism(Gaussian), "fused"),
        (Mechanism(Linear), "linear"),
        (Mechanism(Additive), None),
        (Mechanism(ScaledDot, SinkSoftmax), "fused"),
        (Mechanism(Gaussian, SinkSoftmax), None),  # its features leave out a term that the sink would see
        (Mechanism(Linear, SinkSoftmax), None),
        (Mechanism(ScaledDot, Sigmoid), None),
        (Mechanism(ScaledDot, pooling=Hard), None),
        (Mechanism(ScaledDot, window=LocalP), None),
        (Mechanism(ScaledDot, window=partial(LocalP, falloff="none")), "fused"),
        (Mechanism(ScaledDot, window=NARROW), "band"),
        (Mechanism(ScaledDot, window=partial(Band, width=2, falloff="gaussian")), "strips"),
        (Mechanism(ScaledDot, SinkSoftmax, window=NARROW), "strips"),
        (Mechanism(ScaledDot, Sigmoid, window=NARROW), "strips"),
        (Mechanism(Additive, window=NARROW), "strips"),
        (Mechanism(partial(Location, length=LENGTH), window=NARROW), None),
        (Mechanism(ScaledDot, window=partial(Band, width=LENGTH)), "fused"),  # strips would save nothing
    ],
)
def test_a_mechanism_takes_the_fastest_exact_path(mechanism: Mechanism, expected: str | None) -> None:
    assert _path(mechanism) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"causal": True}, "linear"),
        ({"mask": PADDING}, "linear"),
        ({"mask": PER_QUERY}, None),
        ({"causal": True, "offset": 1}, None),
        ({"bias": torch.zeros(LENGTH, LENGTH)}, None),
        ({"training": True}, "linear"),
        ({"training": True, "dropout": 0.1}, None),
    ],
)
def test_sums_over_the_keys_leave_no_single_weight_to_change(
    call: dict[str, Any], expected: str | None
) -> None:
    assert _path(Mechanism(Linear), **call) == expected
    assert _path(Mechanism(Linear, partial(Softmax, temperature=2.0))) is None


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({"mask": PADDING}, "band"),
        ({"mask": PER_QUERY}, "fused"),
        ({"bias": torch.zeros(LENGTH, LENGTH)}, "fused"),
        ({"training": True, "dropout": 0.1}, "band"),
    ],
)
def test_strips_are_cut_where_all_queries_share_the_mask(call: dict[str, Any], expected: str) -> None:
    assert _path(Mechanism(ScaledDot, window=NARROW), **call) == expected


def test_a_small_fused_call_has_no_operators_for_what_it_does_not_need() -> None:
    """There are no empty rows and nothing to broadcast; handling both would take longer than the kernel."""
    attention = Mechanism(ScaledDot)(SIZE, SIZE, 2).eval()
    x, mask = torch.randn(3, 2, 5, SIZE), torch.ones(3, 1, 1, 5, dtype=torch.bool)
    mask[0, ..., 3:] = False
    memory = attention.remember(x, mask=mask)
    with torch.no_grad(), Operators() as operators:
        context = attention(x, memory)
    assert not {"masked_fill", "bitwise_or", "expand"} & operators.calls.keys()
    mask[1] = False
    memory = attention.remember(x, mask=mask)
    assert torch.equal(attention(x, memory)[::2], context[::2]) and not attention(x, memory)[1].any()


def test_queries_keys_values_and_mask_get_a_dimension_of_heads_once() -> None:
    attention = Mechanism(ScaledDot)(SIZE, SIZE).eval()
    x, mask = torch.randn(3, 5, SIZE), torch.arange(5).expand(3, 1, 5) < 4
    memory = attention.remember(x, mask=mask)
    with Operators() as operators:
        attention(x, memory)
    assert operators.calls["unsqueeze"] == 4


_LEADING = (2, 3, 4)
_MASKS = {
    "no mask": None,
    "padding": torch.arange(7) < torch.tensor([7, 4, 0, 1, 7, 5]).view(2, 3, 1, 1, 1),
    "of each example": torch.rand(2, 1, 1, 6, 7, generator=torch.Generator().manual_seed(0)) < 0.5,
    "of each head": torch.rand(1, 1, 4, 6, 7, generator=torch.Generator().manual_seed(0)) < 0.5,
    "of all": torch.arange(7).expand(6, 7) <= torch.arange(6).unsqueeze(1),
}


@pytest.mark.parametrize("shared", [(2, 3, 1), (2, 1, 4), (1, 1, 4), _LEADING])
@pytest.mark.parametrize("mask", _MASKS)
def test_more_than_four_dimensions_stay_on_the_fused_kernel(mask: str, shared: tuple[int, ...]) -> None:
    """As for the windows of an image, or groups of heads; the plain kernel holds the weights of all pairs."""
    torch.manual_seed(0)
    attention = Mechanism(ScaledDot)(SIZE, SIZE)
    query, key, value, bias = (
        torch.randn(*shape, requires_grad=True)
        for shape in ((*_LEADING, 6, SIZE), (*shared, 7, SIZE), (*shared, 7, 3), (4, 6, 7))
    )
    upstream = torch.randn(*_LEADING, 6, 3)
    for given in (None, bias.detach()):  # the kernel has no gradient for a bias
        memory = attention.remember(key, value, _MASKS[mask])
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            found = attention(query, memory, bias=given)
        expected = attention.weights(query, memory, bias=given) @ value
        assert torch.allclose(found, expected, atol=1e-6)
        of_found, of_expected = (
            torch.autograd.grad(y, (query, key, value), upstream, retain_graph=True)
            for y in (found, expected)
        )
        assert all(map(partial(torch.allclose, atol=1e-5), of_found, of_expected))


@pytest.mark.long
@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated", "ignore::torch.jit.TracerWarning")
def test_more_than_four_dimensions_can_be_exported_and_traced() -> None:
    class Masked(nn.Module):
        def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
            return attention(query, attention.remember(key, mask=mask))

    attention, dim = Mechanism(ScaledDot)(SIZE, SIZE), torch.export.Dim.DYNAMIC
    small, large = (
        (torch.randn(b, 2, 2, 5, SIZE), torch.randn(b, 2, 1, k, SIZE), torch.rand(b, 1, 1, 1, k) < 0.5)
        for b, k in ((3, 6), (2, 7))
    )
    shapes = {"query": {0: dim}, "key": {0: dim, 3: dim}, "mask": {0: dim, 4: dim}}
    exported = torch.export.export(Masked(), small, dynamic_shapes=shapes, strict=False).module()
    assert torch.allclose(exported(*large), Masked()(*large), atol=1e-6)
    traced = torch.jit.trace(Masked(), (*small[:2], small[2][:1]))
    assert torch.allclose(traced(*small), Masked()(*small), atol=1e-6)


@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_few_queries_in_a_band_take_a_slice_of_the_keys(score: type[ScaledDot]) -> None:
    keys, query = torch.randn(2, 40, SIZE), torch.randn(2, 1, SIZE)

    def path(window: partial[Band], mask: torch.Tensor | None = None, **call: Any) -> str | None:
        attention = Mechanism(score, window=window)(SIZE, SIZE)
        found = fast_path(
            attention, Call(attention.window, query, attention.remember(keys, mask=mask), **call)
        )
        return None if found is None else found.name

    assert path(NARROW) == path(NARROW, offset=39) == path(NARROW, torch.rand(2, 1, 40) > 0.5) == "slice"
    assert path(partial(Band, width=2, falloff="gaussian"), offset=20) == "slice"
    without = {path(partial(Band, width=20)), path(NARROW, offset=50), path(NARROW, bias=torch.zeros(1, 40))}
    assert without == {"fused" if score is ScaledDot else None}
