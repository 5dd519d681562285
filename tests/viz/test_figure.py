"""Figures for notebooks: their layout, and that they are complete."""

import subprocess
import sys
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attention_lab.viz import show_heatmaps
from attention_lab.viz.canvas import BAD, PALETTE

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3, 4))  # [rows 2, columns 3, Q 4, K 5]
QUERIES, KEYS = list("abcd"), ["the", "cat", "sat", "$x$", "</s>"]


def panels(figure: Figure) -> list[Axes]:
    """The axes with a matrix; not those of colour bars."""
    return [axes for axes in figure.axes if axes.images]


def bars(figure: Figure) -> int:
    return sum(not axes.images and axes.axison for axes in figure.axes)


def matrices(figure: Figure) -> list[Any]:
    return [np.ma.getdata(axes.images[0].get_array()) for axes in panels(figure)]


def ticks(axes: Axes, side: str) -> list[str]:
    """The labels that are drawn."""
    labels = axes.get_xticklabels() if side == "x" else axes.get_yticklabels()
    return [label.get_text() for label in labels if label.get_visible()]


def rows_and_columns(figure: Figure) -> tuple[int, int]:
    grid = panels(figure)[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    return grid.nrows, grid.ncols


def test_rows_and_columns_with_one_scale_and_one_bar() -> None:
    figure = show_heatmaps(WEIGHTS, titles=["one", "two", "three"], queries=QUERIES, keys=KEYS)
    shown = panels(figure)
    assert rows_and_columns(figure) == (2, 3)
    assert np.array_equal(matrices(figure), WEIGHTS.reshape(6, 4, 5))
    assert {axes.images[0].get_clim() for axes in shown} == {(0, WEIGHTS.max())}
    assert bars(figure) == 1
    assert [axes.get_title() for axes in shown] == ["one", "two", "three", "", "", ""]
    assert [axes.get_xlabel() for axes in shown] == [""] * 3 + ["key"] * 3
    assert [axes.get_ylabel() for axes in shown] == ["query", "", ""] * 2
    assert [ticks(axes, "y") for axes in shown] == [QUERIES, [], []] * 2
    assert [ticks(axes, "x") for axes in shown] == [[], [], []] + [KEYS] * 3


@pytest.mark.sampled(4, rest="long")
@pytest.mark.parametrize(
    ("given", "grid"),
    [
        (WEIGHTS[0, 0], (1, 1)),
        (WEIGHTS[0], (2, 2)),
        (list(WEIGHTS[0]), (2, 2)),
        (list(WEIGHTS), (2, 3)),
        ([list(row) for row in WEIGHTS], (2, 3)),
        (WEIGHTS.tolist(), (2, 3)),
        (WEIGHTS[0, 0].tolist(), (1, 1)),
    ],
)
def test_matrices_may_be_given_in_several_ways(given: Any, grid: tuple[int, int]) -> None:
    figure = show_heatmaps(given)
    assert rows_and_columns(figure) == grid
    count = 6 if grid == (2, 3) else 3 if grid == (2, 2) else 1
    assert np.array_equal(matrices(figure), WEIGHTS.reshape(6, 4, 5)[:count])
    assert bars(figure) == 1


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_tensors_of_any_type(dtype: torch.dtype) -> None:
    weights = torch.tensor(WEIGHTS, dtype=dtype, requires_grad=True)
    expected = weights.detach().float().numpy().reshape(6, 4, 5)
    assert np.array_equal(matrices(show_heatmaps(weights)), expected)
    assert np.array_equal(matrices(show_heatmaps(list(weights[0]))), expected[:3])


@pytest.mark.long
def test_the_positional_call_of_the_textbooks() -> None:
    """`show_heatmaps(matrices, xlabel, ylabel, titles, figsize, cmap)`, as in Dive into Deep Learning."""
    figure = show_heatmaps(np.eye(10).reshape(1, 1, 10, 10), "Keys", "Queries")
    (axes,) = panels(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Keys", "Queries")
    titles = ["Head 1", "Head 2", "Head 3"]
    figure = show_heatmaps(torch.tensor(WEIGHTS), "Keys", "Queries", titles, (7, 3.5), "Reds")
    named = show_heatmaps(
        WEIGHTS, xlabel="Keys", ylabel="Queries", titles=titles, figsize=(7, 3.5), cmap="Reds"
    )
    for one in (figure, named):
        assert rows_and_columns(one) == (2, 3)
        assert tuple(one.get_size_inches()) == (7, 3.5)
        assert {axes.images[0].cmap.name for axes in panels(one)} == {"Reds"}
        assert [axes.get_title() for axes in panels(one)] == [*titles, "", "", ""]
        assert {axes.get_xlabel() for axes in panels(one)} == {"", "Keys"}
    assert figure._repr_png_() == named._repr_png_()  # type: ignore[attr-defined]
    small = show_heatmaps(WEIGHTS[:1, :1], "Keys", "Queries", figsize=(2.5, 2.5), cmap="Reds")
    assert tuple(small.get_size_inches()) == (2.5, 2.5)


def test_matrices_of_different_sizes_keep_their_own_labels() -> None:
    wide = np.eye(3, 12)
    figure = show_heatmaps(
        [WEIGHTS[0, 0], wide], queries=[QUERIES, list("xyz")], keys=[KEYS, list("abcdefghijkl")], columns=2
    )
    first, second = panels(figure)
    assert (ticks(first, "y"), ticks(second, "y")) == (QUERIES, list("xyz"))
    assert (ticks(first, "x"), ticks(second, "x")) == (KEYS, list("abcdefghijkl"))
    # cells are square, and of one size
    figure.canvas.draw()
    boxes = [axes.get_window_extent() for axes in (first, second)]
    for box, (queries, keys) in zip(boxes, [(4, 5), (3, 12)], strict=True):
        assert box.width / keys == pytest.approx(box.height / queries, rel=0.01)


def test_labels_may_be_numbers() -> None:
    for keys in (range(5), np.arange(5), torch.arange(5).tolist()):
        assert ticks(panels(show_heatmaps(WEIGHTS[0, 0], keys=keys))[0], "x") == list("01234")


UNEVEN = [np.full(shape, 0.5) for shape in ((5, 7), (9, 4), (3, 12), (2, 2))]
OWN = [
    [[f"{start}-{'x' * (place % 7)}{place}" for place in range(one.shape[axis])] for one in UNEVEN]
    for axis, start in enumerate(("query", "wonderful key"))
]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize(("shared", "figsize"), [(True, None), (False, (12, 9))])
def test_labels_of_one_map_keep_off_the_next(
    columns: int, shared: bool, figsize: tuple[float, float] | None
) -> None:
    titles = ["one", "a title wider than its map", "three", "four"]
    figure = show_heatmaps(
        UNEVEN, titles=titles, queries=OWN[0], keys=OWN[1], columns=columns, shared=shared, figsize=figsize
    )
    figure.canvas.draw()
    found = [axes.get_tightbbox() for axes in figure.axes if axes.axison]
    boxes = [box for box in found if box is not None]
    if not shared:  # a map and its own bar
        boxes = [Bbox.union([one, bar]) for one, bar in zip(boxes[:4], boxes[4:], strict=True)]
    for number, one in enumerate(boxes):
        assert one.x0 >= 0 and one.y0 >= 0 and one.x1 <= figure.bbox.x1 and one.y1 <= figure.bbox.y1
        assert not any(one.overlaps(other) for other in boxes[number + 1 :])
    tops = [axes.get_window_extent().y1 for axes in panels(figure)]
    for number in range(0, len(tops), columns):
        assert tops[number : number + columns] == pytest.approx([tops[number]] * len(tops[number:][:columns]))


@pytest.mark.long
def test_no_paper_is_left_empty_around_the_maps() -> None:
    figure = show_heatmaps(UNEVEN, queries=OWN[0], keys=OWN[1], columns=4)
    figure.canvas.draw()
    inches, needed = figure.get_size_inches(), figure.get_tightbbox().size  # in inches too
    assert (needed > inches - 0.5).all()


def test_a_map_fills_its_axes_and_a_very_long_one_is_not_a_line() -> None:
    (axes,) = panels(show_heatmaps(WEIGHTS[0, 0]))
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 4.5), (3.5, -0.5))
    figure = show_heatmaps(np.full((1, 60), 1 / 60))
    height = panels(figure)[0].get_position().height * figure.get_figheight()
    assert height == pytest.approx(0.9)  # inches


def test_a_scale_for_each() -> None:
    figure = show_heatmaps([WEIGHTS[0, 0], 10 * WEIGHTS[0, 1]], shared=False)
    limits = [axes.images[0].get_clim() for axes in panels(figure)]
    assert limits == [(0, WEIGHTS[0, 0].max()), (0, 10 * WEIGHTS[0, 1].max())]
    assert bars(figure) == 2


@pytest.mark.long
def test_scales_and_colours() -> None:
    norm = panels(show_heatmaps(WEIGHTS, scale="sqrt"))[0].images[0].norm
    assert isinstance(norm, PowerNorm)
    assert norm(WEIGHTS.max() / 4) == pytest.approx(0.5)
    image = panels(show_heatmaps(np.array([[-1.0, 3.0], [np.nan, np.inf]]), cmap="viridis"))[0].images[0]
    assert image.get_clim() == (-1, 3)
    assert image.cmap.name == "viridis"
    colours = np.rint(255 * image.to_rgba(image.get_array()))[..., :3]
    assert colours[1].tolist() == [PALETTE[BAD].tolist()] * 2
    assert panels(show_heatmaps(np.zeros((2, 2))))[0].images[0].get_clim() == (0, 1)


def test_labels_are_legible() -> None:
    names = [f"token{number}" for number in range(300)]
    figure = show_heatmaps(np.eye(300), queries=names, keys=["a long word indeed", *names[1:]])
    axes = panels(figure)[0]
    figure.canvas.draw()
    assert ticks(axes, "x")[0] == "a long word i…"
    for side, labels in (("x", axes.get_xticklabels()), ("y", axes.get_yticklabels())):
        boxes = [label.get_window_extent() for label in labels]
        assert 10 < len(boxes) < 60
        assert ticks(axes, side)[1:3] == [
            names[int(label.get_position()[side == "y"])] for label in labels[1:3]
        ]
        edges = [(box.x0, box.x1) if side == "x" else (-box.y1, -box.y0) for box in boxes]
        assert all(one[1] <= two[0] for one, two in pairwise(edges))
        assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)  # none is cut off


def test_labels_and_titles_are_no_programs_for_latex(monkeypatch: pytest.MonkeyPatch) -> None:
    # Placing the panels measures the numbers beside the bar, for which LaTeX would be needed.
    monkeypatch.setattr("attention_lab.viz.heatmap_figure.figure.place", lambda *_: None)
    with rc_context({"text.usetex": True}):
        axes = show_heatmaps([np.ones((4, 5))], titles=["a_b"], queries=QUERIES, keys=KEYS).axes[0]
    written = [axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()]
    assert [one.get_text() for one in written] == ["a_b", *KEYS, *QUERIES]
    assert not any(one.get_usetex() for one in written)


def test_a_notebook_shows_the_figure_and_files_can_be_written(tmp_path: Path) -> None:
    figure = show_heatmaps(WEIGHTS[0, 0], figsize=(4, 3))
    picture = Image.open(BytesIO(figure._repr_png_()))  # type: ignore[attr-defined]
    assert picture.size == (440, 330)
    assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 20
    figure.savefig(tmp_path / "heads.pdf")
    assert (tmp_path / "heads.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "no matrices to draw"),
        (np.zeros((0, 3, 3)), {}, "no matrices to draw"),
        (np.zeros((3, 0)), {}, r"a matrix has shape \(3, 0\)"),
        (np.zeros(3), {}, "matrices has 1 dimensions: give"),
        ([[np.eye(2)], [np.eye(2)] * 2], {}, r"rows have \[1, 2\] matrices"),
        (
            WEIGHTS,
            {"titles": ["a", "b"]},
            "2 titles: give one for each of 6 matrices or of 3 columns",
        ),
        (WEIGHTS, {"queries": KEYS}, "queries: the number of labels must be 4, not 5$"),
        (WEIGHTS[0, 0], {"keys": QUERIES}, "keys: the number of labels must be 5, not 4$"),
        (WEIGHTS, {"keys": [KEYS]}, "keys: the number of lists must be 6, one for each matrix, not 1$"),
        (WEIGHTS, {"keys": [KEYS] * 5 + [QUERIES]}, "keys of matrix 6: .* must be 5, not 4"),
        ([np.ones((4, 5)), np.ones((4, 3))], {"keys": KEYS}, "keys of matrix 2: .* must be 3, not 5$"),
        (WEIGHTS, {"columns": -1}, r"columns=-1: give 1 or more"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        show_heatmaps(given, **options)


@pytest.mark.long
def test_pyplot_is_left_alone() -> None:
    script = (
        "import sys, numpy\n"
        "from attention_lab.viz import show_heatmaps\n"
        "show_heatmaps(numpy.eye(3))._repr_png_()\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
