"""The multi-head layer against torch's own, and its two interfaces."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import prune

from attention_lab.attention import (
    Additive,
    Gaussian,
    Mechanism,
    MultiHead,
    ScaledDot,
    causal_mask,
    lengths_mask,
    recording,
)
from attention_lab.attention.positions import make_relative
from attention_lab.errors import LabError
from benchmarks.peers.encoders import copy_multihead


def _pair(size: int, heads: int) -> tuple[MultiHead, nn.MultiheadAttention]:
    torch.manual_seed(0)
    ours = MultiHead(Mechanism(ScaledDot), size, heads).double()
    theirs = nn.MultiheadAttention(size, heads, batch_first=True).double()
    nn.init.normal_(ours.project.bias)
    copy_multihead(ours, theirs)
    return ours, theirs


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_equals_torch(heads: int) -> None:
    ours, theirs = _pair(8, heads)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = lengths_mask(torch.tensor([5, 2, 4]), 5)
    expected, weights = theirs(x, x, x, key_padding_mask=~mask[:, 0], average_attn_weights=False)
    assert torch.allclose(ours(x, mask), expected, atol=1e-12)
    with recording(ours) as seen:
        assert torch.allclose(ours(x, mask), expected, atol=1e-12)
    assert torch.allclose(seen["attention"], weights, atol=1e-12)


def test_attending_to_a_remembered_source_equals_torch() -> None:
    ours, theirs = _pair(8, 2)
    query, source = torch.randn(3, 4, 8, dtype=torch.float64), torch.randn(3, 6, 8, dtype=torch.float64)
    assert torch.allclose(
        ours.attend(query, ours.remember(source)), theirs(query, source, source)[0], atol=1e-12
    )
    assert torch.allclose(ours.attend(source, ours.remember(source)), ours(source), atol=1e-12)


class _Adapted(nn.Module):
    """A linear layer with a correction of its own, as adapters wrap it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer, self.weight, self.bias = layer, layer.weight, layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + x.sum(-1, keepdim=True)


def _adapt(layer: MultiHead) -> None:
    layer.project, layer.output = _Adapted(layer.project), _Adapted(layer.output)  # type: ignore[assignment]


def _hook(layer: MultiHead) -> None:
    layer.project.register_forward_hook(lambda module, inputs, projected: projected * 2)


def _prune_and_train(layer: MultiHead) -> None:
    """A hook computes the pruned weight from the parameter, here after the parameter has changed."""
    prune.l1_unstructured(layer.project, "weight", 0.5)
    with torch.no_grad():
        layer.project.weight_orig *= 2


@pytest.mark.parametrize("change", [_adapt, _hook, _prune_and_train])
def test_whatever_the_projection_computes_reaches_a_remembered_source(
    change: Callable[[MultiHead], None],
) -> None:
    layer, x = MultiHead(Mechanism(ScaledDot), 8, 2).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    before = layer(x)
    change(layer)
    memory = layer.remember(x)
    found = layer.attend(x, memory)
    assert not torch.allclose(found, before)
    assert torch.allclose(found, layer(x), atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*quant")
def test_quantized_to_eight_bits() -> None:
    layer, x = MultiHead(Mechanism(Additive), 32, 2), torch.randn(2, 5, 32)
    quantized = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear})
    for found in (quantized(x), quantized.attend(x, quantized.remember(x))):
        assert torch.allclose(found, layer(x), atol=0.05)


@pytest.mark.parametrize("score", [Additive, Gaussian])
def test_a_score_has_its_own_parameters_in_each_head(score: type) -> None:
    module = MultiHead(Mechanism(score), 8, 2).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    with recording(module) as before:
        module(x)
    with torch.no_grad():
        for parameter in module.attention.score.parameters():
            parameter[0] *= 1.5
    with recording(module) as after:
        module(x)
    assert not torch.allclose(before["attention"][:, 0], after["attention"][:, 0])
    assert torch.equal(before["attention"][:, 1], after["attention"][:, 1])


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 6), (1, 2, 5, 8)])
def test_sequences_have_a_batch_and_the_size_of_the_model(shape: tuple[int, ...]) -> None:
    layer, x = MultiHead(Mechanism(ScaledDot), 8, 2), torch.zeros(shape)
    memory = layer.remember(torch.zeros(2, 5, 8))
    for call in (layer, layer.remember, lambda query: layer.attend(query, memory)):
        with pytest.raises(ValueError, match=r"sequences \[B, L, 8\], got \["):
            call(x)


@pytest.mark.usefixtures("unchecked_shapes")
def test_masks_fit_the_sequences() -> None:
    layer, x = MultiHead(Mechanism(ScaledDot), 8, 2), torch.zeros(3, 5, 8)
    for mask in (torch.ones(3, 5) > 0, torch.rand(3, 5) > 2):  # those of a batch with and without padding
        with pytest.raises(ValueError, match=r"a mask with 3 rows .* mask\.unsqueeze\(1\)"):
            layer(x, mask)
    with pytest.raises(TypeError, match="MultiHead takes a tensor as mask, not a list"):
        layer(x, [[True] * 5])
    with pytest.raises(ValueError, match=r"attend\(x, remember\(source\)\)"):  # called as torch's is
        layer(x, x)
    with pytest.raises(ValueError, match="a mask must be boolean"):
        layer(torch.zeros(2, 8, 8), torch.ones(2, 1, 8))


@pytest.mark.parametrize("score", [ScaledDot, Additive, Gaussian])
def test_a_batch_without_examples(score: type) -> None:
    layer, x = MultiHead(Mechanism(score), 8, 2), torch.zeros(0, 5, 8, requires_grad=True)
    y = layer(x, torch.ones(0, 1, 5, dtype=torch.bool), causal=True)
    y.sum().backward()
    assert y.shape == x.shape
    assert x.grad is not None
    assert layer.attend(x, layer.remember(x)).shape == x.shape


@pytest.mark.parametrize("groups", [None, 1])
def test_each_projection_starts_with_its_own_scale(groups: int | None) -> None:
    """Xavier's: uniform up to sqrt(6 / (fan in + fan out)), where W^K and W^V of fewer heads are smaller."""
    torch.manual_seed(0)
    layer = MultiHead(Mechanism(ScaledDot), 64, 8, key_value_heads=groups)
    shared = 64 if groups is None else 8
    for part in layer.project.weight.split([64, shared, shared]):
        assert part.abs().max().item() == pytest.approx((6 / (64 + len(part))) ** 0.5, rel=0.02)
    assert not layer.project.bias.any()


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(LabError, match=r"^size=10 must be a multiple of heads=4$"):
        MultiHead(Mechanism(ScaledDot), 10, 4)


@pytest.mark.parametrize("score", [ScaledDot, Additive])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "quadratic", "t5"])
def test_piece_by_piece_equals_all_at_once(score: type, positions: str) -> None:
    torch.manual_seed(0)
    module = MultiHead(Mechanism(score), 8, 2, relative=make_relative(positions, 2, 4)).double()
    x = torch.randn(3, 7, 8, dtype=torch.float64)
    memory, found = module.remember(x[:, :2], causal=True), []
    found.append(module.attend(x[:, :2], memory))
    for start, end in ((2, 3), (3, 7)):
        memory = memory.extend(module.remember(x[:, start:end], causal=True, offset=start))
        found.append(module.attend(x[:, start:end], memory, offset=start))
    assert torch.allclose(torch.cat(found, 1), module(x, causal=True), atol=1e-12)
    assert torch.allclose(module(x, causal_mask(7)), module(x, causal=True), atol=1e-12)


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "quadratic", "t5"])
def test_each_example_has_its_own_graph_of_who_sees_whom(positions: str) -> None:
    torch.manual_seed(0)
    module = MultiHead(Mechanism(ScaledDot), 8, 2, relative=make_relative(positions, 2, 4)).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    mask = torch.rand(2, 5, 5) > 0.4
    mask[0, 3] = False  # a node without neighbours
    with recording(module) as weights:
        together = module(x, mask)
    assert torch.equal(weights["attention"] > 0, mask.unsqueeze(1).expand(2, 2, 5, 5))
    assert torch.allclose(together[0, 3], module.output.bias)
    assert torch.allclose(module(x, mask), together, atol=1e-12)
    assert torch.allclose(module(x[1:], mask[1]), together[1:], atol=1e-12)


def test_the_memory_of_other_heads_is_rejected() -> None:
    """A smaller number of heads would be shared like those of grouped queries."""
    x, mechanism = torch.randn(2, 5, 8), Mechanism(ScaledDot)
    module = MultiHead(mechanism, 8, 4)
    for other in (MultiHead(mechanism, 8, 2), MultiHead(mechanism, 8, 4, key_value_heads=2)):
        with pytest.raises(ValueError, match=r"it has values \[2, 2, 5, .\], not \[B, 4, K, 2\]$"):
            module.attend(x, other.remember(x))
    with pytest.raises(ValueError, match=r"it has values \[2, 5, 8\], not \[B, 4, K, 2\]$"):
        module.attend(x, mechanism(8, 8).remember(x))


@pytest.mark.usefixtures("unchecked_shapes")
def test_the_position_of_a_source_and_of_queries_is_a_whole_number() -> None:
    x, module = torch.randn(2, 5, 8), MultiHead(Mechanism(ScaledDot), 8, 4)
    calls: list[Callable[[Any], Any]] = [
        lambda offset: module.remember(x, offset=offset),
        lambda offset: module.attend(x, module.remember(x), offset=offset),
    ]
    for call in calls:
        with pytest.raises(LabError, match=r"^offset must be a whole number, not 1\.5$"):
            call(1.5)
        with pytest.raises(LabError, match=r"^offset must be at least 0, got -1$"):
            call(-1)


@pytest.mark.usefixtures("unchecked_shapes")
def test_lengths_are_not_a_packing() -> None:
    module: Any = MultiHead(Mechanism(ScaledDot), 8, 4)
    with pytest.raises(TypeError, match=r"^packing must be a Packing, not a Tensor: use Packing.of_lengths"):
        module(torch.randn(2, 5, 8), packing=torch.tensor([5, 3]))


@pytest.mark.parametrize("groups", [None, 2, 1])
@pytest.mark.parametrize("across", [False, True])
def test_a_mask_for_each_head(groups: int | None, across: bool) -> None:
    layer = MultiHead(Mechanism(ScaledDot), 8, 4, key_value_heads=groups).double()
    x, mask = torch.randn(2, 5, 8, dtype=torch.float64), torch.rand(2, 4, 5, 5) > 0.4
    with recording(layer) as weights:
        output = layer.attend(x, layer.remember(x, mask)) if across else layer(x, mask)
    (found,) = weights.values()
    assert torch.equal(found != 0, mask)
    value = layer.project(x)[..., -8 if groups is None else -2 * groups :].view(2, 5, -1, 2).transpose(1, 2)
    contexts = found @ value.repeat_interleave(4 // value.shape[1], 1)
    assert torch.allclose(layer.output(contexts.transpose(1, 2).flatten(-2)), output)


def test_second_derivatives_need_the_plain_kernel() -> None:
    layer = MultiHead(Mechanism(ScaledDot), 8, 2).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(layer, (x,))
