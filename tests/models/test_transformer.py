"""The Transformer: the same step by step as at once, padding, searches, and what its attentions show."""

import math
from typing import Any

import pytest
import torch
from beams import beam_search
from torch import Tensor
from toys import (
    LENGTHS,
    SOURCE,
    TARGET,
    check_causal,
    check_every_parameter_learns,
    check_steps,
    exact_toy,
    toy,
    train,
)

from attention_lab.attention import (
    Additive,
    Constant,
    Cosine,
    Gaussian,
    General,
    Gumbel,
    Linear,
    Location,
    Mechanism,
    QueryFree,
    ScaledDot,
    recording,
)
from attention_lab.attention.positions import POSITIONS
from attention_lab.attention.windows import Band, LocalP
from attention_lab.errors import LabError
from attention_lab.models import Transformer
from attention_lab.models.decoding.beam_search import Decodable, greedy
from attention_lab.models.parts.sublayers import FeedForward
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS, EOS, PAD


def _model(mechanism: Mechanism | type = ScaledDot, **options: Any) -> Transformer:
    return exact_toy(Transformer, mechanism, **options)


class Narrow(Band):
    """A band that leaves something out of a few keys."""

    def __init__(self, query_size: int, heads: int | None = None) -> None:
        super().__init__(query_size, heads, width=1)


MECHANISMS = [
    *(
        Mechanism(score)
        for score in (ScaledDot, General, Additive, Cosine, Linear, Gaussian, Constant, Location, QueryFree)
    ),
    Mechanism(ScaledDot, window=Narrow),
    Mechanism(Additive, window=LocalP),
    Mechanism(ScaledDot, pooling=Gumbel),
]
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)


@mechanisms
def test_stepwise_equals_parallel_with_any_mechanism(mechanism: Mechanism) -> None:
    check_steps(_model(mechanism))


@pytest.mark.parametrize("positions", POSITIONS)
def test_stepwise_equals_parallel_with_any_positions(positions: str) -> None:
    check_steps(_model(positions=positions))
    check_steps(_model(Mechanism(Additive, window=Narrow), positions=positions))


@pytest.mark.sampled(2, rest="long")
@mechanisms
def test_stepwise_equals_parallel_with_one_head_of_keys(mechanism: Mechanism) -> None:
    check_steps(_model(mechanism, key_value_heads=1))


@pytest.mark.sampled(2, rest="long")
@mechanisms
def test_padding_and_company_change_nothing(mechanism: Mechanism) -> None:
    model = _model(mechanism)
    together = model(SOURCE, LENGTHS, TARGET)
    poisoned = SOURCE.masked_fill(SOURCE == PAD, 8)
    torch.testing.assert_close(model(poisoned, LENGTHS, TARGET), together, rtol=0, atol=1e-12)
    for row, (source, target) in enumerate(zip((6, 3, 4), (5, 2, 4), strict=True)):
        one = slice(row, row + 1)
        alone = model(SOURCE[one, :source], LENGTHS[one], TARGET[one, :target])[0]
        torch.testing.assert_close(alone, together[row, :target], rtol=0, atol=1e-10)
        upstream = torch.randn_like(alone)
        leaves = list(model.parameters())
        kept = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        left = torch.autograd.grad(alone, leaves, upstream, **kept)
        right = torch.autograd.grad(together[row, :target], leaves, upstream, **kept)
        for a, b in zip(left, right, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("positions", POSITIONS)
def test_logits_depend_only_on_earlier_symbols(positions: str) -> None:
    check_causal(_model(positions=positions))


def test_positions_stand_on_each_side_and_not_between() -> None:
    model = _model(positions="alibi")
    assert all(layer.attention.relative is not None for layer in model.encoder.layers)
    assert all(layer.self.relative is not None for layer in model.decoder.layers)
    assert all(layer.cross.relative is None for layer in model.decoder.layers)
    without = _model(positions="none", layers=1, decoder_layers=1)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    plain, mixed = (without(source, LENGTHS[:1], TARGET[:1]) for source in (SOURCE[:1], SOURCE[:1, order]))
    torch.testing.assert_close(plain, mixed, rtol=0, atol=1e-12)
    for positions in set(POSITIONS) - {"none"}:
        placed = _model(positions=positions, layers=1, decoder_layers=1)
        plain, mixed = (placed(source, LENGTHS[:1], TARGET[:1]) for source in (SOURCE[:1], SOURCE[:1, order]))
        assert not torch.allclose(plain, mixed), positions


def _mean_attention(attention: Any, query: Tensor, source: Tensor, *, causal: bool) -> Tensor:
    """What equal weights give: W^O of the mean of all values, or of those so far."""
    _, _, values = attention.project(source).chunk(3, -1)
    steps = range(1, len(query) + 1)
    means = [values[:step].mean(0) if causal else values.mean(0) for step in steps]
    output: Tensor = attention.output(torch.stack(means))
    return output


@pytest.mark.parametrize("tied", [True, False])
def test_one_layer_by_hand(tied: bool) -> None:
    """Where all weights are equal, the logits of one example are those of the formulas."""
    model: Any = _model(
        Mechanism(Constant), layers=1, decoder_layers=1, heads=1, positions="none", tie_embedding=tied
    )

    def forward(layer: Any, x: Tensor) -> Tensor:
        inner = layer.feedforward
        hidden = torch.relu(inner.expand(layer.feedforward_norm(x)))
        output: Tensor = x + inner.contract(hidden)
        return output

    below, above = model.encoder.layers[0], model.decoder.layers[0]
    x = model.encoder_embedding.weight[SOURCE[0]] * math.sqrt(8)
    normed = below.attention_norm(x)
    source = model.encoder.norm(forward(below, x + _mean_attention(below.attention, x, normed, causal=False)))
    x = model.decoder.embedding.weight[torch.tensor([BOS, *TARGET[0, :-1]])] * math.sqrt(8)
    x = x + _mean_attention(above.self, x, above.self_norm(x), causal=True)
    x = x + _mean_attention(above.cross, x, source, causal=False)
    x = model.decoder.norm(forward(above, x))
    table = model.decoder.embedding.weight if tied else model.decoder.output.weight
    torch.testing.assert_close(model(SOURCE[:1], LENGTHS[:1], TARGET[:1])[0], x @ table.T, rtol=0, atol=1e-12)


def test_feed_forward_of_known_numbers() -> None:
    network = FeedForward(1, 2, 0.0)
    with torch.no_grad():
        network.expand.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network.expand.bias.copy_(torch.tensor([1.0, 0.0]))
        network.contract.weight.copy_(torch.tensor([[2.0, 3.0]]))
        network.contract.bias.fill_(0.5)
    assert network(torch.tensor([[[1.0], [-2.0]]])).tolist() == [[[4.5], [6.5]]]


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("positions", POSITIONS)
def test_searches_with_the_cache_are_those_that_read_all_anew(positions: str) -> None:
    model = _model(positions=positions)
    assert isinstance(model, Decodable)

    class Anew:
        """Reads the whole of what was written at each step."""

        def start(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
            return source, lengths, source.new_zeros(len(source), 0)

        def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
            source, lengths, before = state
            read = torch.cat([before, tokens.unsqueeze(1)], 1)
            target = torch.cat([read[:, 1:], torch.full_like(read[:, :1], PAD)], 1)
            return model(source, lengths, target)[:, -1], (source, lengths, read)

        def select(self, state: tuple[Tensor, ...], index: Tensor) -> tuple[Tensor, ...]:
            return tuple(part[index] for part in state)

    assert greedy(model, SOURCE, LENGTHS, 7).equal(greedy(Anew(), SOURCE, LENGTHS, 7))
    tokens, scores = beam_search(model, SOURCE, LENGTHS, 7, 3)
    expected, expected_scores = beam_search(Anew(), SOURCE, LENGTHS, 7, 3)
    assert tokens.equal(expected)
    torch.testing.assert_close(scores, expected_scores, rtol=0, atol=1e-10)
    alone, _ = beam_search(model, SOURCE[1:2, :3], LENGTHS[1:2], 7, 3)
    assert tokens[1, : alone.shape[1]].equal(alone[0])


def test_every_attention_is_recorded_in_order() -> None:
    model = _model()
    with recording(model) as weights:
        recorded = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(recorded, model(SOURCE, LENGTHS, TARGET), rtol=0, atol=1e-10)
    layers = [
        f"decoder.layers.{number}.{side}.attention" for number in range(3) for side in ("self", "cross")
    ]
    assert list(weights) == [*(f"encoder.layers.{i}.attention.attention" for i in range(2)), *layers]
    assert model.alignment == layers[-1]
    for name, shape in (("encoder", (6, 6)), ("self", (5, 5)), ("cross", (5, 6))):
        for found in (weights[one] for one in weights if name in one.split(".")):
            assert found.shape == (3, 2, *shape)
            torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))
            assert name == "self" or (found[1, ..., 3:] == 0).all()
            assert name != "self" or (found.triu(1) == 0).all()


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_start_small_whether_tied_or_not(scaled: bool, tied: bool) -> None:
    options = {"d_model": 64, "scale_embedding": scaled, "tie_embedding": tied}
    model = toy(Transformer, ScaledDot, TransductionSizes(300, 500), **options).eval()
    source, target = torch.randint(4, 300, (4, 9)), torch.randint(4, 500, (4, 9))
    assert 0.3 < model(source, torch.full((4,), 9), target).std().item() < 2
    tables = 300 * 64 + 500 * 64 * (1 if tied else 2)
    layers = [
        *model.encoder.parameters(),
        *model.decoder.layers.parameters(),
        *model.decoder.norm.parameters(),
    ]
    assert sum(p.numel() for p in model.parameters()) == tables + sum(p.numel() for p in layers)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_parameter_learns(positions: str) -> None:
    options = {"dropout": 0.1, "attention_dropout": 0.1, "tie_embedding": False}
    check_every_parameter_learns(_model(positions=positions, **options))


def test_shared_keys_and_values_save_parameters() -> None:
    def count(**options: int) -> int:
        return sum(p.numel() for p in _model(layers=1, decoder_layers=1, **options).parameters())

    # In each of three attentions, one head of keys and one of values, of size 4, less; with their biases.
    assert count() - count(key_value_heads=1) == 3 * 2 * 4 * (8 + 1)


def test_as_many_layers_on_either_side_unless_told() -> None:
    assert len(_model(decoder_layers=None).decoder.layers) == 2
    assert len(_model(layers=1, decoder_layers=4).decoder.layers) == 4


@pytest.mark.long
def test_learns_to_reverse() -> None:
    sizes = {"d_model": 32, "layers": 1, "decoder_layers": None, "feedforward": 64}
    model = toy(Transformer, **sizes, dropout=0.0, positions="sinusoidal")

    def pairs() -> tuple[Tensor, Tensor]:
        drawn, end = torch.randint(4, 8, (64, 4)), torch.full((64, 1), EOS)
        return torch.cat([drawn, end], 1), torch.cat([drawn.flip(1), end], 1)

    assert train(model, pairs, steps=120, lr=5e-3) < 0.1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layers": 0}, "model.layers must be at least 1, got 0"),
        ({"decoder_layers": 0}, "model.decoder_layers must be at least 1, got 0"),
        ({"feedforward": 0}, "model.feedforward must be at least 1, got 0"),
        ({"heads": 0}, "model.heads must be at least 1, got 0"),
        ({"heads": 3}, "model.d_model=8 must be a multiple of model.heads=3"),
        ({"heads": 4, "key_value_heads": 3}, "model.heads=4 must be a multiple of model.key_value_heads=3"),
        ({"positions": "middle"}, "model.positions=middle is unknown: choose sinusoidal, learned"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(LabError) as caught:
        _model(**options)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)
