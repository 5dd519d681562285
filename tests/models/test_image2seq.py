"""From a picture to a sequence: the feature grid, padding, batches, and steps against the whole."""

from typing import Any

import pytest
import torch
from beams import beam_search
from torch import Tensor, nn
from toys import exact_toy, toy

from attention_lab.attention import Additive, ScaledDot, recording
from attention_lab.errors import LabError
from attention_lab.models import ImageToSequence
from attention_lab.models.decoding.beam_search import greedy
from attention_lab.models.image2seq import GridEncoder, PictureNorm
from attention_lab.sizes import ImageSizes
from attention_lab.special_symbols import BOS, EOS, PAD

LENGTHS = torch.tensor([20, 8, 12])
TARGET = torch.tensor([[4, 5, 6, EOS], [6, EOS, PAD, PAD], [5, 4, EOS, PAD]])


def _pictures(width: int = 20) -> Tensor:
    """Pictures of the widths LENGTHS, and 1e9 where there is none."""
    torch.manual_seed(1)
    pictures = torch.rand(3, 8, width, dtype=torch.float64)
    return pictures.masked_fill((torch.arange(width) >= LENGTHS.unsqueeze(1)).unsqueeze(1), 1e9)


def _model(score: type = Additive, cell: int = 4, **options: Any) -> ImageToSequence:
    return exact_toy(ImageToSequence, score, ImageSizes(8, cell, 7), **options)


@pytest.mark.parametrize("training", [False, True])
def test_more_padding_changes_nothing(training: bool) -> None:
    model, pictures = _model(dropout=0.0).train(training), _pictures()
    wider = torch.cat([pictures, torch.full((3, 8, 9), 1e9)], -1)
    before = model(pictures, LENGTHS, TARGET)
    after = model(wider, LENGTHS, TARGET)
    torch.testing.assert_close(before, after, rtol=0, atol=1e-12)
    gradients = [
        torch.autograd.grad(logits.square().sum(), list(model.parameters())) for logits in (before, after)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("score", [Additive, ScaledDot])
@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
def test_a_batch_of_one_is_a_row_of_many(score: type, wiring: str) -> None:
    model, pictures = _model(score, wiring=wiring, layers=2), _pictures()
    many = model(pictures, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS.tolist()):
        one = model(pictures[row : row + 1, :, :length], LENGTHS[row : row + 1], TARGET[row : row + 1])
        torch.testing.assert_close(one[0], many[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("cell", "rows", "columns"), [(1, 8, 20), (2, 4, 10), (4, 2, 5), (8, 1, 3)])
def test_one_annotation_for_each_cell(cell: int, rows: int, columns: int) -> None:
    encoder = _model(cell=cell).encoder
    keys, values, mask, finals, _ = encoder(_pictures(), LENGTHS)
    assert keys is values
    assert keys.shape == (3, rows * columns, 6)
    cells = -(-LENGTHS // cell) * rows
    assert mask.sum(-1).squeeze(1).equal(cells)
    for row, count in enumerate(cells.tolist()):
        torch.testing.assert_close(finals[0][row], keys[row, :count].mean(0))


def test_cells_are_counted_down_the_columns() -> None:
    torch.manual_seed(0)
    encoder = GridEncoder(4, channels=3, hidden_size=6, layers=1, dropout=0.0).double().eval()
    pictures = torch.zeros(1, 8, 40, dtype=torch.float64)
    pictures[0, 5, 22] = 1.0  # row 1, column 5
    blank, marked = (
        encoder(one, torch.tensor([40])).keys[0] for one in (torch.zeros_like(pictures), pictures)
    )
    change = (marked - blank).norm(dim=-1).view(10, 2)  # [columns, rows]
    assert change[:4].eq(0).all()  # a cell knows itself and its neighbours
    assert change[7:].eq(0).all()
    assert change[5, 1] > 0


def test_cells_of_one_look_differ_by_their_place() -> None:
    keys = _model().encoder(torch.zeros(1, 8, 40, dtype=torch.float64), torch.tensor([40])).keys[0]
    assert len(keys[4:-4].unique(dim=0)) == len(keys) - 8


def test_the_norm_is_that_of_all_real_columns() -> None:
    torch.manual_seed(0)
    norm, plain = PictureNorm(2).double(), nn.BatchNorm2d(2).double()
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(norm(x, torch.tensor([4, 4])), plain(x))
    apart = norm(x, torch.tensor([4, 1]))
    real = torch.cat([x[0], x[1, :, :, :1]], -1).unsqueeze(0)
    expected = plain(real)
    torch.testing.assert_close(torch.cat([apart[0], apart[1, :, :, :1]], -1), expected[0])
    assert apart[1, :, :, 1:].eq(0).all()


def test_step_by_step_is_all_at_once() -> None:
    model, pictures = _model(input_feeding=True), _pictures()
    whole = model(pictures, LENGTHS, TARGET)
    state, tokens = model.start(pictures, LENGTHS), torch.full((3,), BOS)
    for step in range(4):
        logits, state = model.step(tokens, state)
        torch.testing.assert_close(logits, whole[:, step], rtol=0, atol=1e-12)
        tokens = TARGET[:, step]


def test_searches_write_from_pictures() -> None:
    model, pictures = _model(), _pictures()
    outputs = greedy(model, pictures, LENGTHS, 5)
    searched, _ = beam_search(model, pictures, LENGTHS, 5, 1)
    assert outputs.shape[0] == 3
    assert searched.equal(outputs[:, : searched.shape[1]])


def test_weights_stand_on_the_cells_of_the_picture() -> None:
    model = _model()
    with recording(model) as weights:
        model(_pictures(), LENGTHS, TARGET)
    (recorded,) = weights.values()
    assert recorded.shape == (3, 1, 4, 10)
    torch.testing.assert_close(recorded.sum(-1), torch.ones(3, 1, 4, dtype=torch.float64))
    assert recorded[1, ..., 4:].eq(0).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cell_": "rnn"}, "model.cell=rnn is unknown: choose lstm or gru"),
        ({"wiring": "both"}, "model.wiring=both is unknown: choose bahdanau or luong"),
        ({"channels": 0}, "model.channels must be at least 1, got 0"),
        ({"hidden_size": 1}, "model.hidden_size must be at least 2, got 1"),
        ({"layers": 0}, "model.layers must be at least 1, got 0"),
    ],
)
def test_bad_options(options: dict[str, Any], expected: str) -> None:
    options = {name.rstrip("_"): value for name, value in options.items()}
    with pytest.raises(LabError) as caught:
        toy(ImageToSequence, Additive, **options)
    assert str(caught.value) == expected
