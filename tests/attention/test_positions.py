"""Sinusoidal and learned positions."""

import math

import pytest
import torch

from attention_lab.attention.positions import Learned, Sinusoidal, make_positions, sinusoids
from attention_lab.errors import LabError


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_values_by_the_formula(size: int) -> None:
    table = sinusoids(7, size)
    for position in range(7):
        for entry in range(size):
            angle = position / 10000 ** (2 * (entry // 2) / size)
            expected = math.sin(angle) if entry % 2 == 0 else math.cos(angle)
            assert table[position, entry].item() == pytest.approx(expected, abs=1e-6)


def test_a_longer_input_than_foreseen() -> None:
    positions = Sinusoidal(6, 4)
    assert torch.equal(positions(torch.zeros(1, 50, 6))[0], sinusoids(50, 6))
    assert torch.equal(positions(torch.zeros(1, 3, 6))[0], sinusoids(3, 6))


def test_shifting_is_a_rotation_that_does_not_depend_on_the_position() -> None:
    table = sinusoids(40, 8).double()
    products = table @ table.T
    assert torch.allclose(products[0, 5], products[20, 25], atol=1e-5)


def test_learned_positions_end() -> None:
    positions = Learned(4, 3)
    assert torch.equal(positions(torch.zeros(2, 2, 4))[1], positions.table[:2])
    with pytest.raises(LabError, match="made for 3 positions, got 4"):
        positions(torch.zeros(1, 4, 4))


def test_names() -> None:
    x = torch.randn(1, 3, 4)
    assert torch.equal(make_positions("none", 4, 3)(x), x)
    with pytest.raises(LabError, match="choose sinusoidal, learned, none"):
        make_positions("sinus", 4, 3)
