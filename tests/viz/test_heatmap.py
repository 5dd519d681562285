"""Whole pictures of attention maps."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from attention_lab.viz import Heatmap, draw_heatmaps, fonts, to_png
from attention_lab.viz.canvas import BAD, GOLD, INK, PAPER, SHADES, Pixels
from attention_lab.viz.cells import shades
from attention_lab.viz.layout import CAPTION, HEADING, LARGEST, LEGEND, MARGIN, SPACE, arrange


def words(count: int, start: str = "t") -> list[str]:
    return [f"{start}{number}" for number in range(count)]


def random_map(queries: int, keys: int, seed: int = 0) -> Heatmap:
    weights = np.random.default_rng(seed).random((queries, keys))
    return Heatmap(weights, "head", words(queries), words(keys))


def panel(image: Image.Image, maps: Sequence[Heatmap], number: int) -> Pixels:
    """The pixels of one map in a picture without title."""
    layout = arrange(maps, None)
    row, column = divmod(number, layout.columns)
    left = MARGIN + column * layout.across + layout.left
    top = MARGIN + row * layout.down + CAPTION
    (queries, keys), (down, across) = maps[number].weights.shape, layout.cell
    return np.asarray(image)[top : top + queries * down, left : left + keys * across]


def middles(pixels: Pixels, shape: tuple[int, int]) -> Pixels:
    """The pixel in the middle of each cell."""
    cell = pixels.shape[0] // shape[0]
    return pixels[cell // 2 :: cell, cell // 2 :: cell]


def test_every_weight_has_its_colour_on_one_fixed_scale() -> None:
    maps = [random_map(6, 9), Heatmap(np.full((6, 9), 0.02)), random_map(6, 9, 1), random_map(4, 2, 2)]
    image = draw_heatmaps(maps)
    for number, heatmap in enumerate(maps):
        expected = shades(heatmap.weights, 1.0)
        shape = heatmap.weights.shape[0], heatmap.weights.shape[1]
        np.testing.assert_array_equal(middles(panel(image, maps, number), shape), expected)


def test_maximum_is_an_option() -> None:
    maps = [Heatmap(np.array([[0.04, 0.16]]))]
    scaled = middles(panel(draw_heatmaps(maps, maximum=0.16), maps, 0), (1, 2))
    assert scaled.tolist() == [[round(0.25 * (SHADES - 1)), SHADES - 1]]


def test_colour_bar_runs_through_all_shades() -> None:
    image = np.asarray(draw_heatmaps([Heatmap(np.zeros((1, 1)))]))
    column = image[:, -MARGIN - LEGEND + 5]
    bar = column[column < SHADES]
    assert sorted(set(bar.tolist())) == list(range(SHADES))
    assert (np.diff(bar.astype(int)) <= 0).all() and bar[0] == SHADES - 1


def test_scales_can_be_told_apart_by_their_ticks() -> None:
    blank = [Heatmap(np.zeros((2, 2)))]
    assert to_png(draw_heatmaps(blank)) != to_png(draw_heatmaps(blank, maximum=0.5))


def test_legend_names_only_what_is_there() -> None:
    plain = random_map(3, 3)
    masked = Heatmap(plain.weights, mask=np.eye(3, dtype=bool))
    golden = Heatmap(plain.weights, gold=np.array([0, -1, -1]))
    broken = Heatmap(np.full((3, 3), np.nan))

    def legend(heatmap: Heatmap) -> Pixels:
        return np.asarray(draw_heatmaps([heatmap]))[:, -MARGIN - LEGEND :]

    assert not np.isin(legend(plain), [GOLD, BAD]).any()
    assert (legend(golden) == GOLD).any() and (legend(broken) == BAD).any()
    assert legend(masked).shape[0] > legend(plain).shape[0]


def test_gold_is_outlined() -> None:
    heatmap = Heatmap(np.zeros((4, 5)), gold=np.array([4, -1, 0, 2]))
    pixels = panel(draw_heatmaps([heatmap]), [heatmap], 0)
    assert (middles(pixels, (4, 5)) == 0).all()
    cell = pixels.shape[0] // 4
    edges = pixels[cell // 2 :: cell, cell - 1 :: cell] == GOLD  # the pixel left of the next cell
    assert edges[0, 3] and edges[3, 1] and edges.sum() == 2


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    panels=st.integers(1, 80),
    queries=st.integers(0, 90),
    keys=st.integers(0, 90),
    columns=st.none() | st.integers(1, 30),
    label=st.text(st.characters(), max_size=30),
    long=st.booleans(),
)
@example(panels=65, queries=41, keys=1, columns=None, label="", long=False)
def test_size_is_bounded_and_no_label_crashes(
    panels: int, queries: int, keys: int, columns: int | None, label: str, long: bool
) -> None:
    label = label * 40 if long else label
    heatmap = Heatmap(np.ones((queries, keys)), label, [label] * queries, [label] * keys)
    image = draw_heatmaps([heatmap] * panels, title=label, columns=columns)
    assert max(image.size) <= LARGEST


@pytest.mark.parametrize("shape", [(3000, 1700), (1, 4000), (2500, 1)])
def test_a_map_of_more_cells_than_pixels_keeps_its_peak(shape: tuple[int, int]) -> None:
    weights = np.zeros(shape, dtype=np.float32)
    weights[shape[0] // 2, shape[1] // 2] = 1
    image = draw_heatmaps([Heatmap(weights, "big", words(shape[0]), words(shape[1]))])
    assert max(image.size) <= LARGEST
    assert (np.asarray(image)[:, : -MARGIN - LEGEND] == SHADES - 1).any()


def test_single_cell_and_no_cells() -> None:
    one = [Heatmap(np.ones((1, 1)))]
    assert (panel(draw_heatmaps(one), one, 0) == SHADES - 1).all()
    assert draw_heatmaps([Heatmap(np.ones((0, 3)))]).size[0] > 0


def with_label(count: int, changed: int, axis: str) -> bytes:
    """A picture of count x count cells where the first and one more label differ from the others."""
    labels = ["aa"] * count
    labels[0] = labels[changed] = "bb"
    heatmap = Heatmap(np.zeros((count, count)), **{axis: labels})  # type: ignore[arg-type]
    return to_png(draw_heatmaps([heatmap]))


@pytest.mark.parametrize("axis", ["queries", "keys"])
def test_labels_are_all_there_at_forty_tokens_and_thinned_beyond(axis: str) -> None:
    assert len({with_label(40, changed, axis) for changed in range(40)}) == 40
    one_in_three = [with_label(100, changed, axis) for changed in range(7)]
    drawn, left_out = one_in_three[::3], one_in_three[1::3] + one_in_three[2::3]
    assert len(set(drawn)) == 3
    assert set(left_out) == {drawn[0]}


@pytest.mark.parametrize(("queries", "keys"), [(6, 50), (50, 6), (6, 60), (30, 50), (2, 12)])
def test_a_long_map_has_room_for_the_label_of_each_row_and_key(queries: int, keys: int) -> None:
    maps = [Heatmap(np.zeros((queries, keys)), "head", ["m"] * queries, ["m"] * keys)]
    layout = arrange(maps, None)
    assert layout.step == (1, 1) and not layout.turned
    assert min(layout.cell) >= layout.label_size and max(layout.cell) <= 2 * min(layout.cell)
    assert layout.slot >= fonts.label_mask("m", layout.label_size).shape[1] - 2


def test_few_rows_of_many_keys_are_neither_thin_nor_joined() -> None:
    layout = arrange([Heatmap(np.zeros((6, 900)), "head", ["m"] * 6, ["m"] * 900)], None)
    assert layout.block[0] == 1 and layout.cell[0] >= layout.label_size and layout.step[0] == 1


def test_labels_wider_than_a_cell_read_upwards() -> None:
    def height(keys: list[str]) -> int:
        return draw_heatmaps([Heatmap(np.zeros((9, 4)), keys=keys)]).size[1]

    assert height(["a", "b", "c", "d"]) < height(["a", "b", "c", "wonderful"])
    assert height(["a", "b", "c", "wonderful"]) == height(["wonderful"] * 4)


def test_labels_reading_upwards_keep_apart() -> None:
    maps = [Heatmap(np.zeros((9, 4)), keys=["wonderful"] * 4)]
    layout = arrange(maps, None)
    left, top = MARGIN + layout.left, MARGIN + CAPTION + layout.height + 2
    band = np.asarray(draw_heatmaps(maps))[top : top + layout.depth, left : left + 4 * layout.cell[1]]
    inked = (band > PAPER).any(axis=0).reshape(4, layout.cell[1])
    assert not inked[:, [0, -1]].any() and inked.any(axis=1).all()


def test_query_labels_are_whole_where_there_is_room() -> None:
    maps = [Heatmap(np.zeros((2, 9)), queries=["agreement", "on"])]
    layout = arrange(maps, None)
    mask = fonts.label_mask("agreement", layout.label_size)
    right = MARGIN + layout.left - SPACE
    top = MARGIN + CAPTION + layout.cell[0] // 2 - mask.shape[0] // 2
    drawn = np.asarray(draw_heatmaps(maps))[top : top + mask.shape[0], right - mask.shape[1] : right]
    clear = np.abs(mask.astype(int) - 127) > 10  # elsewhere, rounding decides
    np.testing.assert_array_equal((drawn >= (PAPER + INK) // 2)[clear], (mask > 127)[clear])


def test_without_labels_there_are_axis_names_only() -> None:
    heatmap = Heatmap(np.zeros((4, 4)))
    left = np.asarray(draw_heatmaps([heatmap]))[:, : MARGIN + arrange([heatmap], None).left - 3]
    rows = np.flatnonzero((left > PAPER).any(axis=1))
    assert 20 < rows[-1] - rows[0] < 50  # the turned word "query"


def test_labels_need_not_be_as_many_as_cells() -> None:
    few = Heatmap(np.zeros((3, 3)), queries=["a"], keys=["a"] * 9)
    assert to_png(draw_heatmaps([few])) == to_png(
        draw_heatmaps([Heatmap(np.zeros((3, 3)), queries=["a"], keys=["a"] * 3)])
    )


@pytest.mark.parametrize("keys", [2, 8, 40])
def test_titles_that_differ_at_their_end_are_told_apart(keys: int) -> None:
    def picture(title: str) -> bytes:
        heatmap = Heatmap(np.zeros((3, keys)), f"decoder layer 1 self · {title}")
        return to_png(draw_heatmaps([heatmap] * 4))

    assert len({picture("head 1"), picture("head 2"), picture("head 12")}) == 3


def test_columns_and_title() -> None:
    maps = [random_map(5, 5)] * 6
    wide, tall = draw_heatmaps(maps, columns=6), draw_heatmaps(maps, columns=1)
    assert wide.size[0] > wide.size[1] and tall.size[0] < tall.size[1]
    titled = draw_heatmaps(maps, columns=6, title="validation")
    assert titled.size == (wide.size[0], wide.size[1] + HEADING)
    assert [arrange([maps[0]] * count, None).columns for count in (1, 2, 3, 4, 5, 6, 8, 12, 16)] == [
        1, 2, 3, 2, 3, 3, 4, 4, 4,
    ]  # fmt: skip


def test_maps_left_out_are_said() -> None:
    maps = [Heatmap(np.zeros((1, 1)))] * 65
    all_drawn, some = draw_heatmaps(maps[:64]), draw_heatmaps(maps)
    assert some.size == (all_drawn.size[0], all_drawn.size[1] + HEADING)
    assert (np.asarray(some)[MARGIN : MARGIN + 20] > PAPER).any()


def test_same_bytes_each_time() -> None:
    maps = [random_map(8, 11), Heatmap(np.full((2, 2), np.nan), "日本", ["\0", "😀"], ["ʃ", "<b>"])]
    first = to_png(draw_heatmaps(maps, title="t"))
    fonts._draw.cache_clear()
    assert to_png(draw_heatmaps(maps, title="t")) == first
    assert first.startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="no heatmaps"):
        draw_heatmaps([])
    for maximum in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="must be positive"):
            draw_heatmaps([random_map(1, 1)], maximum=maximum)
