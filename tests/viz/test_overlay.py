"""Attention over a picture: where the colours, the ink and the gold are."""

import numpy as np
import pytest
from PIL import Image

from attention_lab.viz import Overlay, draw_overlays
from attention_lab.viz.canvas import BAD, GOLD, PALETTE
from attention_lab.viz.layout import CAPTION, GAP, LARGEST, LEGEND, MARGIN

INK = np.zeros((4, 8))  # two rows and four columns of cells of 2
EVEN = np.full((1, 8), 1 / 8)


def _one_hot(*cells: int) -> np.ndarray:
    return np.eye(8)[list(cells)]


def _panels(picture: Image.Image, count: int) -> list[np.ndarray]:
    """The pixels of the first panels: each is 80 x 40, ten times the picture."""
    pixels = np.asarray(picture).astype(int)
    columns = (picture.width - MARGIN - LEGEND) // (80 + GAP)
    found = []
    for number in range(count):
        top = MARGIN + CAPTION + number // columns * (CAPTION + 40 + GAP)
        left = MARGIN + number % columns * (80 + GAP)
        found.append(pixels[top : top + 40, left : left + 80])
    return found


def _blue(panel: np.ndarray, row: int, column: int) -> int:
    """How blue the middle of a cell is."""
    red, _, blue = panel[row * 20 + 10, column * 20 + 10]
    return int(blue - red)


def test_the_cell_with_the_weight_is_coloured_and_no_other() -> None:
    picture = draw_overlays(Overlay(INK, 2, _one_hot(0, 1, 5)))
    panels = _panels(picture, 4)
    assert (panels[0] == 255).all()  # the picture alone, which is empty
    for panel, marked in zip(panels[1:], ((0, 0), (1, 0), (1, 2)), strict=True):  # down each column
        blues = {(row, column): _blue(panel, row, column) for row in range(2) for column in range(4)}
        assert max(blues, key=lambda cell: blues[cell]) == marked
        assert sorted(blues.values())[-2] < 20 < 60 < blues[marked]


def test_one_weight_has_one_colour_in_every_picture() -> None:
    weights = np.array([[0.5, 0.5, 0, 0, 0, 0, 0, 0], [0.5, 0.1, 0.1, 0.1, 0.2, 0, 0, 0]])
    panels = _panels(draw_overlays(Overlay(INK, 2, weights)), 3)
    assert panels[1][10, 10].tolist() == panels[2][10, 10].tolist() == panels[1][30, 10].tolist()
    darker = _panels(draw_overlays(Overlay(INK, 2, weights[:1]), maximum=0.5), 2)[1]
    assert _blue(darker, 0, 0) > _blue(panels[1], 0, 0)


def test_ink_is_darkest_where_the_weight_is() -> None:
    panels = _panels(draw_overlays(Overlay(INK + 1, 2, _one_hot(0))), 2)
    attended, elsewhere = panels[1][10, 10].sum(), panels[1][10, 70].sum()
    assert attended < elsewhere - 150
    assert panels[0][10, 10].sum() == panels[0][10, 70].sum() == attended


def test_on_a_page_of_any_colour_the_empty_picture_is_transparent() -> None:
    ink = INK.copy()
    ink[:, :4] = 1
    pixels = np.asarray(draw_overlays(Overlay(ink, 2, EVEN), themed=True))
    height = MARGIN + CAPTION
    opacity = pixels[height : height + 40, MARGIN : MARGIN + 80, 3]
    assert (opacity[5:35, 5:30] == 255).all() and not opacity[5:35, 50:75].any()


def test_gold_cells_are_outlined_together() -> None:
    gold = np.array([[0, 2], [-1, -1]])
    plain = draw_overlays(Overlay(INK, 2, np.repeat(EVEN, 2, 0)))
    marked = draw_overlays(Overlay(INK, 2, np.repeat(EVEN, 2, 0), gold=gold))
    assert marked.width == plain.width
    _, first, second = (np.all(panel == PALETTE[GOLD], -1) for panel in _panels(marked, 3))
    assert not second.any()
    assert first[[0, 1, 18, 19], :40].all()  # cells 0 and 2 are neighbours in the upper row
    assert first[:20, [0, 1, 38, 39]].all()
    assert first.sum() == 2 * 2 * (40 + 20 - 4)
    single = draw_overlays(Overlay(INK, 2, EVEN, gold=np.array([2])))
    assert np.all(_panels(single, 2)[1][0, 20:40] == PALETTE[GOLD])


def test_titles_are_drawn() -> None:
    bare, titled = (
        np.asarray(draw_overlays(Overlay(INK, 2, EVEN, titles), title=title))
        for titles, title in (([], ""), (["7"], "12 → 7"))
    )
    assert titled.shape[0] > bare.shape[0]
    corner = titled[MARGIN : MARGIN + 20, MARGIN:80]
    assert corner.min() < 100


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("shape", [(1, 1), (4, 4096), (2048, 16), (500, 500)])
@pytest.mark.parametrize("queries", [1, 7, 200])
def test_no_picture_is_too_large(shape: tuple[int, int], queries: int) -> None:
    weights = np.full((queries, 1), 1.0) if shape == (1, 1) else np.zeros((queries, shape[0] * shape[1] // 4))
    ink = np.zeros(shape)
    picture = draw_overlays(Overlay(ink, 1 if shape == (1, 1) else 2, weights), title="x" * 300)
    assert picture.width <= LARGEST
    assert picture.height <= LARGEST + 100
    assert picture.mode == "RGB"


def test_weights_that_are_not_numbers_are_seen() -> None:
    weights = np.array([[np.nan, 0.5, 0, 0, 0, 0, 0, 0], [np.inf] * 8])
    _, one, all_of_it = _panels(draw_overlays(Overlay(INK, 2, weights)), 3)
    assert one[10, 10].tolist() == all_of_it[30, 70].tolist() == PALETTE[BAD].tolist()
    assert _blue(one, 1, 0) > 20 > _blue(one, 0, 2)


@pytest.mark.parametrize(
    ("ink", "weights", "gold", "expected"),
    [
        (np.zeros((4, 7)), EVEN, None, "not consist of whole cells of 2"),
        (np.zeros((0, 8)), EVEN, None, "not consist of whole cells of 2"),
        (INK, EVEN[:, :7], None, "do not fit 2 x 4 cells"),
        (INK, EVEN, np.array([8]), "gold .* does not fit"),
        (INK, EVEN, np.array([0, 0]), "gold .* does not fit"),
    ],
)
def test_shapes_that_do_not_fit(
    ink: np.ndarray, weights: np.ndarray, gold: np.ndarray | None, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        Overlay(ink, 2, weights, gold=gold)


def test_a_scale_without_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        draw_overlays(Overlay(INK, 2, EVEN), maximum=0)


def test_cells_have_a_size() -> None:
    with pytest.raises(ValueError, match="not consist of whole cells of 0"):
        Overlay(INK, 0, EVEN)
