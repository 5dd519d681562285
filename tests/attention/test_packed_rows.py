"""Several sequences as rows without padding: `Packing.of_lengths`."""

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import (
    Additive,
    Band,
    Gaussian,
    Linear,
    Mechanism,
    MultiHead,
    Packing,
    ScaledDot,
    SinkSoftmax,
    Sparsemax,
    recording,
)
from attention_lab.attention.fast import packed
from attention_lab.attention.positions import Alibi, Rotary
from attention_lab.errors import LabError

SIZE, HEADS = 8, 2
MECHANISMS = {
    "scaled_dot": Mechanism(ScaledDot),
    "additive": Mechanism(Additive),
    "gaussian": Mechanism(Gaussian),
    "linear": Mechanism(Linear),
    "band": Mechanism(ScaledDot, window=partial(Band, width=2)),
    "sparsemax": Mechanism(ScaledDot, normalizer=Sparsemax),
    "sink": Mechanism(ScaledDot, normalizer=SinkSoftmax),
}
POSITIONS = {"none": None, "rotary": Rotary(HEADS, SIZE // HEADS), "alibi": Alibi(HEADS, SIZE // HEADS)}


def _layer(mechanism: str, positions: str) -> MultiHead:
    torch.manual_seed(0)
    return MultiHead(MECHANISMS[mechanism], SIZE, HEADS, relative=POSITIONS[positions]).double()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_sequence_is_attended_as_if_alone(
    mechanism: str, positions: str, causal: bool, apart: bool
) -> None:
    layer, lengths = _layer(mechanism, positions), [4, 1, 0, 7, 3]
    x = torch.randn(15, SIZE, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(15, SIZE, dtype=torch.float64)

    def gradients(y: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad((y * weight).sum(), [x, *layer.parameters()], allow_unused=True))

    alone = torch.cat([layer(one[None], causal=causal)[0] for one in x.split(lengths) if len(one)])
    with patch.object(packed, "LONG", 0 if apart else 10**9):
        together = layer(x, packing=Packing.of_lengths(lengths), causal=causal)
    torch.testing.assert_close(together, alone)
    for found, expected in zip(gradients(together), gradients(alone), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_weights_of_each_sequence_are_recorded() -> None:
    layer, x = _layer("scaled_dot", "none"), torch.randn(7, SIZE, dtype=torch.float64)
    with recording(nn.Sequential(layer)) as weights:
        layer(x, packing=Packing.of_lengths([4, 3]))
    (heads,) = weights.values()
    assert heads.shape == (2, HEADS, 4, 4)
    assert heads[1, :, :3, 3].eq(0).all()
    assert heads[1, :, :3].sum(-1) == pytest.approx(1.0)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_there_may_be_no_rows(lengths: list[int]) -> None:
    y = _layer("scaled_dot", "none")(torch.zeros(0, SIZE).double(), packing=Packing.of_lengths(lengths))
    assert y.shape == (0, SIZE)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("shape", [(8, SIZE), (1, 7, SIZE), (7, SIZE + 1)])
def test_rows_that_do_not_fit_are_named(shape: tuple[int, ...]) -> None:
    layer = _layer("scaled_dot", "none")
    told = r"^the sequences of the packing have 7 positions together: x must be \[7, 8\], not \["
    with pytest.raises(ValueError, match=told):
        layer(torch.zeros(shape).double(), packing=Packing.of_lengths([4, 3]))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("length", [-1, 2.5, True, "4"])
def test_a_length_is_a_whole_number(length: Any) -> None:
    with pytest.raises(LabError, match=r"^Packing\.of_lengths: a length"):
        Packing.of_lengths([3, length])


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_tensor_of_lengths_is_refused_with_what_to_write() -> None:
    lengths: Any = torch.tensor([3, 4])
    with pytest.raises(TypeError, match=r"^Packing\.of_lengths takes a list, not a Tensor: give "):
        Packing.of_lengths(lengths)


@pytest.mark.usefixtures("unchecked_shapes")
def test_rows_are_a_tensor() -> None:
    rows: Any = [[0.0] * SIZE]
    with pytest.raises(TypeError, match=r"^MultiHead takes a tensor as x, not a list$"):
        _layer("scaled_dot", "none")(rows, packing=Packing.of_lengths([1]))


@pytest.mark.usefixtures("unchecked_shapes")
def test_lengths_may_be_numbers_of_numpy() -> None:
    lengths: Any = np.array([4, 0, 3])
    packing = Packing.of_lengths(lengths)
    assert packing.lengths == (4, 3)
    assert all(type(length) is int for length in packing.lengths)  # others do not compile


@pytest.mark.parametrize(
    ("lengths", "apart"),
    [([512, *[8] * 63], True), ([32, *[8] * 31], False), ([64] * 16, False), ([1024], True)],
)
def test_sequences_are_not_padded_to_a_much_longer_one(lengths: list[int], apart: bool) -> None:
    assert Packing.of_lengths(lengths).attends_apart(16) is apart
