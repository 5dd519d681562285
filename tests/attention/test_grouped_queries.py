"""Grouped-query and multi-query attention: heads of queries that share keys and values."""

import copy
from functools import partial

import pytest
import torch
from counted_operators import Operators
from torch import nn

from attention_lab.attention import (
    Additive,
    Band,
    Constant,
    Cosine,
    Dot,
    Entmax15,
    Gaussian,
    Linear,
    Mechanism,
    MultiHead,
    ScaledDot,
    Sigmoid,
    SinkSoftmax,
    Softmax,
    Sparsemax,
    lengths_mask,
    recording,
)
from attention_lab.attention.positions import make_relative
from attention_lab.errors import LabError


def _with_all_keys(layer: MultiHead) -> MultiHead:
    """The layer of grouped-query attention with the projections of keys and values repeated for each head."""
    groups, width = layer.key_value_heads, layer.size // layer.heads
    repeat = torch.arange(groups).repeat_interleave(layer.heads // groups)
    full = copy.deepcopy(layer)
    full.key_value_heads, full.project = layer.heads, nn.Linear(layer.size, 3 * layer.size).double()
    query, *shared = layer.project.weight.split([layer.size, groups * width, groups * width])
    bias, *shared_bias = layer.project.bias.split([layer.size, groups * width, groups * width])
    with torch.no_grad():
        weights = [part.view(groups, width, -1)[repeat].flatten(0, 1) for part in shared]
        full.project.weight.copy_(torch.cat([query, *weights]))
        full.project.bias.copy_(
            torch.cat([bias, *(x.view(groups, width)[repeat].flatten() for x in shared_bias)])
        )
    return full


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "t5"])
@pytest.mark.parametrize(
    ("mechanism", "causal"),
    [
        *((Mechanism(score), True) for score in (ScaledDot, Linear, Cosine, Additive, Gaussian)),
        *((Mechanism(score), False) for score in (ScaledDot, Linear, Cosine, Constant, Additive)),
        *((Mechanism(Dot, normalizer=kind), False) for kind in (Sparsemax, Entmax15, Sigmoid, SinkSoftmax)),
        (Mechanism(Dot, window=partial(Band, width=1)), False),
    ],
)
def test_grouped_queries_share_the_keys_and_values_of_their_group(
    mechanism: Mechanism, causal: bool, positions: str, groups: int
) -> None:
    torch.manual_seed(0)
    relative = make_relative(positions, 4, 2)
    layer = MultiHead(mechanism, 8, 4, relative=relative, key_value_heads=groups).double()
    if isinstance(layer.attention.normalizer, SinkSoftmax):
        nn.init.normal_(layer.attention.normalizer.sink)
    full, x = _with_all_keys(layer), torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    mask = lengths_mask(torch.tensor([5, 2, 0]), 5)
    with recording(layer) as weights, recording(full) as expected_weights:
        found, expected = layer(x, mask, causal=causal), full(x, mask, causal=causal)
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.equal(layer(x, mask, causal=causal), found)
    assert torch.allclose(weights["attention"], expected_weights["attention"], atol=1e-12)
    upstream = torch.randn_like(found)
    of_found, of_expected = (torch.autograd.grad(y, x, upstream)[0] for y in (found, expected))
    assert torch.allclose(of_found, of_expected, atol=1e-12)


@pytest.mark.parametrize(("score", "remembered"), [(ScaledDot, 1), (Linear, 1), (Additive, 4)])
def test_multi_query_attention_remembers_one_head_piece_by_piece(score: type, remembered: int) -> None:
    torch.manual_seed(0)
    layer = MultiHead(
        Mechanism(score), 8, 4, relative=make_relative("rotary", 4, 2), key_value_heads=1
    ).double()
    assert sum(p.numel() for p in layer.project.parameters()) == (8 + 2 * 2) * (8 + 1)
    x, found = torch.randn(3, 6, 8, dtype=torch.float64), []
    memory = layer.remember(x[:, :0], causal=True)
    for start, end in ((0, 2), (2, 3), (3, 6)):
        memory = memory.extend(layer.remember(x[:, start:end], causal=True, offset=start))
        found.append(layer.attend(x[:, start:end], memory, offset=start))
    assert memory.keys.shape[1] == memory.value.shape[1] == remembered
    assert torch.allclose(torch.cat(found, 1), layer(x, causal=True), atol=1e-12)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("positions", ["none", "alibi"])
def test_one_query_for_all_sources(positions: str, groups: int) -> None:
    layer = MultiHead(
        Mechanism(ScaledDot), 8, 4, relative=make_relative(positions, 4, 2), key_value_heads=groups
    ).double()
    query, source = torch.randn(1, 2, 8).double(), torch.randn(3, 5, 8).double()
    together = layer.attend(query, layer.remember(source))
    one_by_one = [layer.attend(query, layer.remember(one)) for one in source.split(1)]
    assert torch.allclose(together, torch.cat(one_by_one), atol=1e-12)
    mask = lengths_mask(torch.tensor([5, 2, 0]), 5)
    masked = layer.attend(query, layer.remember(source[:1], mask))
    assert torch.allclose(masked[:1], one_by_one[0], atol=1e-12)
    assert torch.equal(masked[2], layer.output.bias.expand(2, -1))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("groups", [1, 2])
def test_an_exported_or_traced_layer_takes_other_sizes_and_masks(groups: int) -> None:
    layer = MultiHead(Mechanism(ScaledDot), 8, 4, key_value_heads=groups).eval()
    x, mask = torch.randn(3, 6, 8), torch.ones(3, 1, 6, dtype=torch.bool)
    sizes = {"x": {0: torch.export.Dim("B"), 1: torch.export.Dim("L")}}
    exported = torch.export.export(layer, (x,), dynamic_shapes=sizes).module()
    other = torch.randn(2, 4, 8)
    assert torch.allclose(exported(other), layer(other), atol=1e-6)
    mask[0, 0, 2:] = False
    traced = torch.jit.trace(layer, (x, mask))
    graph = torch.rand(3, 6, 6) < 0.5
    assert torch.allclose(traced(x, graph), layer(x, graph), atol=1e-6)


def test_a_dropout_of_your_own_gets_the_weights_of_every_head() -> None:
    layer, shapes = MultiHead(Mechanism(ScaledDot), 8, 4, key_value_heads=2), []
    layer.attention.dropout.register_forward_pre_hook(lambda _, given: shapes.append(given[0].shape))
    layer(torch.randn(3, 5, 8))
    assert shapes == [(3, 4, 5, 5)]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "t5"])
@pytest.mark.parametrize("normalizer", [Softmax, Sparsemax])
def test_a_step_of_grouped_queries_copies_no_keys(normalizer: type, positions: str, groups: int) -> None:
    relative, mechanism = make_relative(positions, 8, 16), Mechanism(ScaledDot, normalizer=normalizer)
    layer = MultiHead(mechanism, 128, 8, relative=relative, key_value_heads=groups)
    memory = layer.remember(torch.randn(8, 400, 128), causal=True)
    with Operators() as operators:
        layer.attend(torch.randn(8, 1, 128), memory, offset=399)
    assert 0 < operators.largest <= memory.keys.numel() + memory.value.numel()


def test_groups_of_heads_have_the_same_size() -> None:
    for groups, message in (
        (3, "^heads=4 must be a multiple of key_value_heads=3$"),
        (0, "^key_value_heads must be at least 1, got 0$"),
    ):
        with pytest.raises(LabError, match=message):
            MultiHead(Mechanism(ScaledDot), 8, 4, key_value_heads=groups)
