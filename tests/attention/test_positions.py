"""Positions that are added, and positions that act inside attention."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Dot, Mechanism, MultiHead, recording
from attention_lab.attention.positions import (
    POSITIONS,
    Absolute,
    Alibi,
    Learned,
    Relative,
    Rotary,
    Sinusoidal,
    T5Bias,
    make_absolute,
    make_relative,
    sinusoids,
)
from attention_lab.errors import LabError

ABSOLUTE = [kind for kind in POSITIONS.values() if kind is not None and issubclass(kind, Absolute)]
RELATIVE = [kind for kind in POSITIONS.values() if kind is not None and issubclass(kind, Relative)]


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_sinusoids_by_the_formula(size: int) -> None:
    table = sinusoids(7, size)
    for position in range(7):
        for entry in range(size):
            angle = position / 10000 ** (2 * (entry // 2) / size)
            expected = math.sin(angle) if entry % 2 == 0 else math.cos(angle)
            assert table[position, entry].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("make", [lambda: Sinusoidal(6, 5), lambda: Alibi(2, 4), lambda: T5Bias(2, 4)])
def test_constants_survive_a_device_without_values(make: Callable[[], torch.nn.Module]) -> None:
    with torch.device("meta"):
        module = make()
        assert all(buffer.is_meta for buffer in module.buffers())
        module.to_empty(device="cpu")
    (found,), (wanted,) = module.buffers(), make().buffers()
    assert torch.equal(found, wanted)
    assert found.dtype == wanted.dtype
    (half,) = module.half().buffers()
    assert torch.equal(half, wanted.half() if wanted.is_floating_point() else wanted)


def test_constants_have_their_values_where_loaded_weights_replace_those_of_the_meta_device() -> None:
    wanted = MultiHead(Mechanism(Dot), 8, 2, relative=Alibi(2, 4))
    x = torch.randn(3, 5, 8)
    with torch.device("meta"):
        layer = MultiHead(Mechanism(Dot), 8, 2, relative=Alibi(2, 4))
    layer.load_state_dict(wanted.state_dict(), assign=True)
    assert torch.equal(layer(x), wanted(x))


def test_a_longer_input_than_foreseen() -> None:
    positions = Sinusoidal(6, 4)
    assert torch.equal(positions(torch.zeros(1, 50, 6))[0], sinusoids(50, 6))
    assert torch.equal(positions(torch.zeros(1, 3, 6))[0], sinusoids(3, 6))


def test_shifting_sinusoids_is_a_rotation_that_does_not_depend_on_the_position() -> None:
    table = sinusoids(40, 8).double()
    products = table @ table.T
    assert torch.allclose(products[0, 5], products[20, 25], atol=1e-5)


def test_learned_positions_end() -> None:
    positions = Learned(4, 3)
    assert torch.equal(positions(torch.zeros(2, 2, 4))[1], positions.table[:2])
    with pytest.raises(LabError, match="made for 3 positions, got 4"):
        positions(torch.zeros(1, 4, 4))
    with pytest.raises(LabError, match="made for 3 positions, got 4"):
        positions(torch.zeros(1, 1, 4), 3)
    assert Learned(16, 4000).table.std().item() == pytest.approx(1 / 4, rel=0.02)


@pytest.mark.parametrize("kind", ABSOLUTE)
@pytest.mark.parametrize("length", [6, 60])
def test_a_part_of_a_sequence_gets_its_own_rows(kind: type[Absolute], length: int) -> None:
    positions = kind(4, 60 if kind is Learned else 6)
    x = torch.randn(2, length, 4)
    parts = positions(x[:, :4], 0), positions(x[:, 4:], 4)
    assert torch.equal(torch.cat(parts, 1), positions(x))


def test_names() -> None:
    assert make_absolute("none", 4, 3) is None
    assert make_relative("none", 2, 4) is None
    for name, kind in POSITIONS.items():
        made = [make_absolute(name, 4, 3), make_relative(name, 2, 4)]
        assert [type(one) for one in made if one is not None] == ([kind] if kind is not None else [])
    known = "choose sinusoidal, learned, rotary, alibi, quadratic, t5, none"
    with pytest.raises(LabError, match=f"model.positions=sinus is unknown: {known}"):
        make_absolute("sinus", 4, 3)
    with pytest.raises(LabError, match=known):
        make_relative("sinus", 2, 4)


def _turned(x: Tensor, position: int) -> Tensor:
    """2104.09864, eq. 15: the block-diagonal rotation matrix times x."""
    size = len(x)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for pair in range(size // 2):
        angle = position * 10000 ** (-2 * pair / size)
        place = slice(2 * pair, 2 * pair + 2)
        matrix[place, place] = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    return matrix @ x


@pytest.mark.parametrize("offset", [0, 7])
def test_rotary_by_the_formula(offset: int) -> None:
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    turned = Rotary(3, 6).rotate(x, offset)
    for batch in range(2):
        for head in range(3):
            for row in range(5):
                expected = _turned(x[batch, head, row], offset + row)
                assert torch.allclose(turned[batch, head, row], expected, atol=1e-12)


def test_rotary_keeps_lengths_and_half_precision() -> None:
    x = torch.randn(1, 2, 4, 8)
    turned = Rotary(2, 8).rotate(x.bfloat16(), 4000)
    assert turned.dtype == torch.bfloat16
    assert torch.allclose(turned.float(), Rotary(2, 8).rotate(x.bfloat16().float(), 4000), atol=0.03)
    assert torch.allclose(Rotary(2, 8).rotate(x, 99).norm(dim=-1), x.norm(dim=-1), atol=1e-5)


def test_rotary_needs_pairs() -> None:
    with pytest.raises(LabError, match=r"rotary rotates pairs of entries, but a head has 5"):
        Rotary(2, 5)


@pytest.mark.parametrize("kind", RELATIVE)
def test_only_differences_of_positions_count(kind: type[Relative]) -> None:
    torch.manual_seed(0)
    relative = kind(2, 4).double()
    query, key = torch.randn(2, 1, 2, 1, 4, dtype=torch.float64)
    pairs = []
    for shift in (0, 1, 30):
        score = (relative.rotate(query, 2 + shift) * relative.rotate(key, 5 + shift)).sum(-1)
        bias = relative.bias(1, 6 + shift, 2 + shift)
        pairs.append(score[0] if bias is None else score[0] + bias[:, :, 5 + shift])
    assert torch.allclose(pairs[0], pairs[1], atol=1e-10)
    assert torch.allclose(pairs[0], pairs[2], atol=1e-10)
    far = (relative.rotate(query, 2) * relative.rotate(key, 6)).sum(-1)[0]
    bias = relative.bias(1, 7, 2)
    far = far if bias is None else far + bias[:, :, 6]
    assert (far - pairs[0]).abs().min() > 1e-3  # and they do count


@pytest.mark.parametrize("kind", RELATIVE)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_relative_positions_is_the_formula(kind: type[Relative], causal: bool) -> None:
    torch.manual_seed(0)
    module = MultiHead(Mechanism(Dot), 8, 2, relative=kind(2, 4)).double()
    relative = module.relative
    assert relative is not None
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    query, key, value = (part.view(5, 2, 4).transpose(0, 1) for part in module.project(x)[0].chunk(3, -1))
    if kind is Rotary:
        query, key = (
            torch.stack([torch.stack([_turned(row, p) for p, row in enumerate(head)]) for head in part])
            for part in (query, key)
        )
    scores = query @ key.mT
    bias = relative.bias(5, 5, 0)
    scores = scores if bias is None else scores + bias
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -math.inf)
    expected = module.output((scores.softmax(-1) @ value).transpose(0, 1).reshape(5, 8))
    assert torch.allclose(module(x, causal=causal)[0], expected, atol=1e-6)  # slopes are float32
    with recording(module) as weights:
        module(x, causal=causal)
    assert torch.allclose(weights["attention"][0], scores.softmax(-1), atol=1e-6)
