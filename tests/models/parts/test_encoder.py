"""The encoder: padding, causality, graphs, steps, positions; and the scale of embeddings."""

import math

import pytest
import torch
from toys import toy_encoder

from attention_lab.attention import (
    Additive,
    Band,
    Gaussian,
    General,
    Mechanism,
    ScaledDot,
    causal_mask,
    lengths_mask,
    recording,
)
from attention_lab.attention.positions import POSITIONS
from attention_lab.errors import LabError
from attention_lab.models import Encoder
from attention_lab.models.parts.embedding import ScaledEmbedding
from attention_lab.models.parts.encoder import EncoderLayer
from attention_lab.models.specs import LayerSpec
from attention_lab.special_symbols import PAD


def _encoder(mechanism: Mechanism | type = ScaledDot, **options: object) -> Encoder:
    return toy_encoder(mechanism, **{"d_model": 16, "length": 12, **options})


def _x(batch: int, length: int) -> torch.Tensor:
    return torch.randn(batch, length, 16, dtype=torch.float64)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_nothing(positions: str, causal: bool) -> None:
    encoder = _encoder(positions=positions, causal=causal)
    x, lengths = _x(2, 8), torch.tensor([8, 3])
    found = encoder(x, lengths)
    poisoned = x.clone()
    poisoned[1, 3:] = 1e9
    assert torch.allclose(encoder(poisoned, lengths)[1, :3], found[1, :3], atol=1e-12)
    assert torch.allclose(encoder(x[1:, :3], lengths[1:])[0], found[1, :3], atol=1e-12)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_causal_encoder_does_not_see_the_future(positions: str) -> None:
    encoder = _encoder(causal=True, positions=positions)
    x = _x(1, 6)
    changed = x.clone()
    changed[:, 4:] *= -1
    before, after = (encoder(each, torch.tensor([6])) for each in (x, changed))
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-12)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("score", [ScaledDot, General, Additive, Gaussian])
def test_step_by_step_equals_all_at_once(positions: str, score: type) -> None:
    encoder = _encoder(score, causal=True, positions=positions)
    x = _x(3, 9)
    together = encoder(x, torch.full((3,), 9))
    state, found = None, []
    for part in x.split([1, 3, 1, 4], 1):
        output, state = encoder.step(part, state)
        found.append(output)
    assert state is not None
    assert state.position == 9
    assert torch.allclose(torch.cat(found, 1), together, atol=1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
def test_steps_in_a_window_and_of_chosen_sequences(positions: str) -> None:
    class Narrow(Band):
        def __init__(self, query_size: int, heads: int | None = None) -> None:
            super().__init__(query_size, heads, width=2)

    encoder = _encoder(Mechanism(ScaledDot, window=Narrow), causal=True, positions=positions)
    x = _x(3, 7)
    chosen = torch.tensor([2, 0, 0])
    _, state = encoder.step(x[:, :6], None)
    found, _ = encoder.step(x[chosen, 6:], state.select(chosen))
    expected = encoder(x, torch.full((3,), 7))[:, 6:]
    assert torch.allclose(found, expected[chosen], atol=1e-12)


def test_only_a_causal_encoder_takes_steps() -> None:
    with pytest.raises(ValueError, match="only a causal encoder"):
        _encoder().step(_x(1, 1), None)


def test_positions_tell_the_order() -> None:
    x, length = _x(1, 6), torch.tensor([6])
    for positions in POSITIONS:
        encoder = _encoder(positions=positions)
        forwards, backwards = encoder(x, length), encoder(x.flip(1), length).flip(1)
        unordered = positions in ("none", "alibi")  # the latter is as far to either side
        assert torch.allclose(forwards, backwards, atol=1e-8 if unordered else 1e-4) == unordered, positions
    shuffled = torch.tensor([3, 0, 5, 1, 4, 2])
    encoder = _encoder(positions="alibi")
    mixed = encoder(x[:, shuffled], length)
    assert not torch.allclose(encoder(x, length)[:, shuffled], mixed, atol=1e-4)


@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_a_layer_on_a_graph(score: type) -> None:
    torch.manual_seed(0)
    spec = LayerSpec(d_model=16, heads=2, layers=1, feedforward=24)
    layer = EncoderLayer(Mechanism(score), spec).double().eval()
    x = _x(1, 4)
    path = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]).bool().unsqueeze(0)
    before = layer(x, path)
    x = x.clone()
    x[0, 3] *= -1.0
    after = layer(x, path)
    assert torch.equal(before[0, :2], after[0, :2])
    assert not torch.allclose(before[0, 2], after[0, 2], atol=1e-3)


def test_a_dense_causal_mask_is_the_same() -> None:
    encoder = _encoder(causal=True)
    x = _x(2, 5)
    mask = lengths_mask(torch.tensor([5, 2]), 5)
    layer = encoder.layers[0]
    assert torch.allclose(layer(x, mask, causal=True), layer(x, mask & causal_mask(5)), atol=1e-12)


def test_every_layer_and_head_is_recorded() -> None:
    encoder = _encoder(positions="quadratic")
    with recording(encoder) as weights:
        encoder(_x(3, 8), torch.tensor([8, 5, 1]))
    assert [tuple(weights[name].shape) for name in weights] == [(3, 2, 8, 8)] * 2
    assert list(weights) == [f"layers.{i}.attention.attention" for i in range(2)]


def test_without_layers_positions_and_norm_remain() -> None:
    encoder = _encoder(layers=0, positions="sinusoidal")
    x = _x(2, 5)
    assert encoder.positions is not None
    assert torch.allclose(encoder(x, torch.tensor([5, 5])), encoder.norm(encoder.positions(x)))


def test_wrong_options() -> None:
    with pytest.raises(LabError, match=r"d_model=16 must be a multiple of model\.heads=3"):
        _encoder(heads=3, layers=0)
    with pytest.raises(LabError, match=r"heads=4 must be a multiple of model\.key_value_heads=3"):
        _encoder(heads=4, key_value_heads=3, layers=0)
    with pytest.raises(LabError, match="rotary rotates pairs of entries, but a head has 1"):
        _encoder(heads=16, positions="rotary")
    with pytest.raises(LabError, match=r"model\.positions=around is unknown"):
        _encoder(positions="around")


@pytest.mark.parametrize("scaled", [True, False])
def test_embeddings_start_with_the_size_of_the_positions(scaled: bool) -> None:
    torch.manual_seed(0)
    embedding = ScaledEmbedding(500, 64, scaled)
    vectors = embedding(torch.arange(1, 500))
    assert 0.95 < vectors.std().item() < 1.05
    factor = math.sqrt(64) if scaled else 1.0
    assert torch.allclose(vectors, embedding.weight[1:] * factor)
    assert (embedding(torch.tensor([PAD])) == 0).all()
