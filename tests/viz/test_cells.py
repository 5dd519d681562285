"""Pixels of one map."""

from typing import Any

import numpy as np
import pytest
import torch

from attention_lab.viz import Heatmap
from attention_lab.viz.canvas import BAD, GOLD, OUTLINE, PAPER, SHADES, Pixels
from attention_lab.viz.cells import cell_pixels, outline_gold, shades


def paint(heatmap: Heatmap, cell: int = 8, block: int = 1) -> Pixels:
    return cell_pixels(heatmap, (cell, cell), (block, block), 1.0)


def test_shades_by_hand() -> None:
    weights = np.array([0, 0.2, 1, 3, -1])
    top = SHADES - 1
    assert shades(weights, 1.0).tolist() == [0, round(0.2 * top), top, top, 0]
    assert shades(weights, 2.0).tolist() == [0, round(0.1 * top), round(0.5 * top), top, 0]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_each_cell_is_a_square_of_its_shade(kind: type[np.floating]) -> None:
    weights = np.array([[0, 0.25, 1], [0.5, 0.75, 0.125]], dtype=kind)
    pixels = paint(Heatmap(weights), cell=5)
    expected = shades(weights.astype(float), 1.0)
    assert pixels.shape == (10, 15)
    for query in range(2):
        for key in range(3):
            square = pixels[5 * query : 5 * query + 5, 5 * key : 5 * key + 5]
            assert (square == expected[query, key]).all()


def test_masked_cells_are_hatched_whatever_lies_there() -> None:
    mask = np.array([[True, False]])
    for hidden in (0.0, 1.0, np.nan):
        pixels = paint(Heatmap(np.array([[0.0, hidden]]), mask=mask), cell=12)
        assert (pixels[:, :12] == 0).all()
        greys = np.unique(pixels[:, 12:])
        assert len(greys) > 1 and greys.min() > PAPER and greys.max() < GOLD


def test_hatching_runs_on_across_cells() -> None:
    pixels = paint(Heatmap(np.zeros((3, 3)), mask=np.zeros((1, 3), bool)), cell=7)
    np.testing.assert_array_equal(pixels[1:, :-1], pixels[:-1, 1:])


def test_values_that_are_not_finite_stand_out() -> None:
    heatmap = Heatmap(np.array([[np.nan, np.inf, 0.5]]))
    pixels = paint(heatmap)
    assert (pixels[:, :16] == BAD).all() and (pixels[:, 16:] < SHADES).all()
    assert heatmap.summary() == "2 not finite · max 0.50"


def test_a_block_shows_its_largest_weight() -> None:
    weights = np.zeros((7, 5))
    weights[6, 4] = 1
    mask = np.ones((7, 5), bool)
    mask[:3, :3] = False
    mask[3, 0] = False  # alone in its block: not hatched
    pixels = paint(Heatmap(weights, mask=mask), cell=1, block=3)
    assert pixels.shape == (3, 2)
    assert pixels[0, 0] > PAPER
    assert pixels.ravel()[1:].tolist() == [0, 0, 0, 0, SHADES - 1]


@pytest.mark.parametrize(("cell", "reach"), [(1, 1), (5, 1), (6, 2), (20, 2)])
def test_outline_surrounds_the_gold_cell_and_hides_none_of_it(cell: int, reach: int) -> None:
    heatmap = Heatmap(np.full((3, 4), 0.5), gold=np.array([-1, 2, -1]))
    place = np.pad(paint(heatmap, cell), OUTLINE)
    before = place.copy()
    outline_gold(place, heatmap, (cell, cell), (1, 1))
    top, left = OUTLINE + cell, OUTLINE + 2 * cell
    gold = np.zeros_like(place, dtype=bool)
    gold[top - reach : top + cell + reach, left - reach : left + cell + reach] = True
    gold[top : top + cell, left : left + cell] = False
    np.testing.assert_array_equal(place == GOLD, gold)
    np.testing.assert_array_equal(place[~gold], before[~gold])


def test_gold_cells_that_touch_keep_their_weights() -> None:
    heatmap = Heatmap(np.random.default_rng(0).random((6, 6)), gold=np.array([0, 1, 1, 2, 5, 5]))
    plain = paint(heatmap, 3)
    place = np.pad(plain, OUTLINE)
    outline_gold(place, heatmap, (3, 3), (1, 1))
    inside = heatmap.golden.repeat(3, 0).repeat(3, 1)
    np.testing.assert_array_equal(place[OUTLINE:-OUTLINE, OUTLINE:-OUTLINE][inside], plain[inside])


@pytest.mark.parametrize(
    ("weights", "summary"),
    [
        ([[0.1, 0.834]], "max 0.83"),
        ([[0.0, 0.0]], "max 0.00"),
        ([[0.004, 0.0]], "max 0.004"),
        ([[-0.5, 2.0]], "max 2.00 · min -0.50"),
    ],
)
def test_summary(weights: list[list[float]], summary: str) -> None:
    assert Heatmap(np.array(weights)).summary() == summary


def test_summary_leaves_out_what_is_masked() -> None:
    weights = np.array([[0.9, 0.3]])
    assert Heatmap(weights, mask=np.array([[False, True]])).summary() == "max 0.30"
    assert Heatmap(weights, mask=np.array([[False]])).summary() == "no weights"


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights must have the shape \[queries, keys\], not \(3,\)"):
        Heatmap(np.zeros(3))
    with pytest.raises(ValueError, match=r"mask \(2, 4\) does not fit weights \(2, 3\)"):
        Heatmap(np.zeros((2, 3)), mask=np.ones((2, 4), bool))
    with pytest.raises(ValueError, match=r"gold has shape \(3,\), but the map has 2 queries"):
        Heatmap(np.zeros((2, 3)), gold=np.zeros(3, int))
    with pytest.raises(ValueError, match="gold key 3 in a map of 3 keys"):
        Heatmap(np.zeros((2, 3)), gold=np.array([0, 3]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([torch.ones(2, 3)], r"weights must be a numpy array, not Tensor: give weights\.cpu\(\)\.numpy\(\)"),
        ([np.ones((2, 3)), ["a", "b"], ["c"] * 3], "title must be a text, not list"),
        ([np.ones((2, 3)), "", "ab"], "queries must be a list of texts, not str"),
        ([np.ones((2, 3)), "", [], np.array(["a"])], "keys must be a list of texts, not ndarray"),
        ([np.ones((2, 3)), "", [1, 2]], "queries must be a list of texts, not of int"),
        ([np.ones((2, 3)), "", [], [], None, [0, 1]], "gold must be a numpy array of whole numbers, -1 for"),
        ([np.ones((2, 3)), "", [], [], None, np.ones(2)], "gold must be a numpy array of whole numbers, -1"),
    ],
)
def test_a_tensor_and_labels_in_the_place_of_the_title_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Heatmap(*arguments)
