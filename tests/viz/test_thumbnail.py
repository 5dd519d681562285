"""Small attention maps for light and dark pages."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from attention_lab.viz import Heatmap, Overlay, draw_overlays, draw_thumbnail, to_png
from attention_lab.viz.canvas import lightness
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series
from attention_lab.viz.thumbnail import HEIGHT, WIDTH

PAGES = {"white": (255, 255, 255), "dark": (48, 48, 48)}  # TensorBoard's two


def on_page(picture: Image.Image, page: str) -> np.ndarray:
    """[height, width, 3]: how a browser shows the PNG file."""
    shown = Image.open(BytesIO(to_png(picture))).convert("RGBA")
    paper = Image.new("RGBA", shown.size, (*PAGES[page], 255))
    return np.asarray(Image.alpha_composite(paper, shown))[..., :3].astype(float)


def maps(heads: int, queries: int = 4, keys: int = 5) -> list[Heatmap]:
    weights = np.random.default_rng(0).dirichlet(np.ones(keys), (heads, queries))
    labels = [f"q{n}" for n in range(queries)], [f"k{n}" for n in range(keys)]
    return [Heatmap(one, f"head {n}", *labels) for n, one in enumerate(weights, start=1)]


@pytest.mark.parametrize("page", PAGES)
def test_pictures_are_of_the_colour_of_their_page_and_stand_out_from_it(page: str) -> None:
    ink = np.zeros((8, 16))
    ink[2:6, 3:6] = 1
    plot = Lines([Series("a", [1, 2], [1, 2])])
    for picture in (
        draw_thumbnail(maps(2), title="in → out"),
        draw_overlays(Overlay(ink, 8, np.array([[0.0, 1.0]]), ["a"]), themed=True),
        draw_panels([plot], title="fit", thumbnail=True),
    ):
        shown = lightness(on_page(picture, page))
        paper = lightness(np.array(PAGES[page], float))
        assert (np.abs(shown - paper) < 1).mean() > 0.4, "most of it is the page"
        assert np.abs(shown - paper).max() > 30


@pytest.mark.parametrize("page", PAGES)
def test_more_weight_stands_out_more(page: str) -> None:
    weights = np.array([[0.0, 0.25, 0.5, 0.75, 1.0]])
    shown = on_page(draw_thumbnail([Heatmap(weights)]), page)
    away = np.abs(lightness(shown) - lightness(np.array(PAGES[page], float)))
    rows = np.flatnonzero(away.max(axis=1) > 30)
    middle = away[rows[-1] - 20]
    steps = [middle[start] for start in np.linspace(14 + 36, 14 + 36 + 4 * 72, 5).astype(int)]
    assert steps == sorted(steps) and steps[0] < 1 < 30 < steps[-1]


@pytest.mark.parametrize(("heads", "queries", "keys"), [(1, 2, 3), (4, 8, 8), (8, 20, 20), (2, 300, 900)])
def test_they_fit_the_room_that_tensorboard_has(heads: int, queries: int, keys: int) -> None:
    width, height = draw_thumbnail(maps(heads, queries, keys), title="word " * 50).size
    assert width <= WIDTH + 60 and height <= HEIGHT + 60


def test_maps_stand_side_by_side_without_overlap() -> None:
    opacity = np.asarray(draw_thumbnail([Heatmap(np.ones((2, 2)))] * 3).convert("RGBA"))[-30, :, 3]
    edges = np.flatnonzero(np.diff((opacity > 200).astype(int)))
    assert len(edges) == 12  # the left and right edge of each of six cells
    assert (np.diff(edges)[3::4] >= 16).all()


def test_every_head_has_its_title_and_most_of_the_title_is_seen() -> None:
    one, two = (draw_thumbnail([Heatmap(np.zeros((3, 3)), f"head {n}")] * 4) for n in (1, 2))
    assert to_png(one) != to_png(two)
    short, long = (
        draw_thumbnail([Heatmap(np.zeros((2, 2)))], title=text) for text in ("a", "a long title " * 2)
    )
    assert long.width > short.width


def test_each_key_has_its_label_where_the_picture_is_wide_enough() -> None:
    def drawn(changed: int) -> bytes:
        keys = ["m"] * 11
        keys[changed] = "W"
        return to_png(draw_thumbnail([Heatmap(np.zeros((11, 11)), "head 1", ["m"] * 11, keys)]))

    assert len({drawn(changed) for changed in range(11)}) == 11


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="no heatmaps"):
        draw_thumbnail([])
    with pytest.raises(ValueError, match="must be positive"):
        draw_thumbnail([Heatmap(np.zeros((1, 1)))], maximum=0.0)
