"""Heatmaps, overlays and plots as SVG and PDF."""

import xml.etree.ElementTree as ET
import zlib
from base64 import b64decode
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import rc_context
from PIL import Image

from attention_lab.viz import Format, Heatmap, Overlay
from attention_lab.viz.canvas import PALETTE
from attention_lab.viz.cells import shades
from attention_lab.viz.overlay import arrange_overlays
from attention_lab.viz.plots import plot_file
from attention_lab.viz.plots.panels import Bubbles, Cells, Dot, Dots, Lines, Series
from attention_lab.viz.vector import MOST_CELLS, heatmaps_file, overlays_file

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>&$x_2$\0"


def maps(queries: int, keys: int) -> list[Heatmap]:
    weights = np.random.default_rng(0).dirichlet(np.ones(keys), (2, queries))
    weights[0, 0, 0] = np.nan
    labels = [f"q{n}" for n in range(queries)], [HOSTILE, *(f"k{n}" for n in range(1, keys))]
    mask = np.tril(np.ones((queries, keys), bool), 1)
    gold = np.arange(queries) % keys
    return [Heatmap(one, f"head {n}", *labels, mask=mask, gold=gold) for n, one in enumerate(weights)]


def texts(svg: bytes) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def test_an_svg_has_real_text_and_a_path_for_each_cell() -> None:
    svg = heatmaps_file(maps(5, 6), "svg", title="in → out", subtitle="decoder")
    said = texts(svg)
    assert {"in → out", "decoder", "head 0", "head 1", "query", "key", "masked", "gold"} <= set(said)
    assert {"q4", "k5"} <= set(said)
    assert any(text.startswith("<script>&$") for text in said)
    assert not list(ET.fromstring(svg).iter(f"{SVG}script"))
    assert not list(ET.fromstring(svg).iter(f"{SVG}image"))
    attended = int(np.tril(np.ones((5, 6), bool), 1).sum())
    assert len(list(ET.fromstring(svg).iter(f"{SVG}path"))) > 2 * attended


def test_each_cell_is_in_the_colour_of_its_weight() -> None:
    weights = np.array([[0.0, 0.25], [0.75, 1.0]])
    root = ET.fromstring(heatmaps_file([Heatmap(weights)], "svg"))
    places = []
    for shade in shades(weights.ravel(), 1.0):
        colour = "fill: #" + bytes(PALETTE[shade]).hex()
        first = next(one for one in root.iter(f"{SVG}path") if colour in one.get("style", ""))
        places.append(tuple(float(number) for number in first.attrib["d"].split()[1:3]))
    (left, top), (right, _), (_, below), _ = places  # the light colour of 0 lies under the whole map
    assert left < right and top < below
    assert places == [(left, top), (right, top), (left, below), (right, below)]


def test_the_entries_of_the_legend_stand_one_below_the_other() -> None:
    weights = np.array([[np.nan, 0.5], [0.5, 0.5]])
    heatmap = Heatmap(weights, mask=np.tril(np.ones((2, 2), bool)), gold=np.array([0, 1]))
    found = {
        one.text: one.attrib for one in ET.fromstring(heatmaps_file([heatmap], "svg")).iter(f"{SVG}text")
    }
    lines = [float(found[name]["y"]) for name in ("1", "0", "masked", "gold", "not finite")]
    assert all(below - above > 10 for above, below in pairwise(lines))
    assert len({found[name]["x"] for name in ("masked", "gold", "not finite")}) == 1


def test_a_large_map_is_an_image() -> None:
    side = int(MOST_CELLS**0.5) + 1
    svg = heatmaps_file([Heatmap(np.zeros((side, side)), "big")], "svg")
    assert list(ET.fromstring(svg).iter(f"{SVG}image")) and len(svg) < 1e6 and "big" in texts(svg)


def test_an_overlay_has_its_words_as_text() -> None:
    overlay = Overlay(
        np.eye(16), 8, np.array([[0.1, 0.2, 0.3, 0.4]] * 3), ["a", HOSTILE, "c"], np.array([0, 1, 2])
    )
    svg = overlays_file(overlay, "svg", title="digits", subtitle="decoder")
    assert {"input", "a", "c", "max 0.40", "digits", "gold"} <= set(texts(svg))
    assert len(list(ET.fromstring(svg).iter(f"{SVG}image"))) == 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("side", "queries", "finer"), [(16, 3, 2), (724, 2, 2), (724, 12, 1)])
def test_panels_are_finer_than_the_page_unless_there_are_very_many_pixels(
    side: int, queries: int, finer: int
) -> None:
    """A picture of 724 x 724 pixels took fifteen seconds and 54 MB for fifteen symbols."""
    cells = (side // 4) ** 2
    overlay = Overlay(np.zeros((side, side)), 4, np.full((queries, cells), 1 / cells))
    plan = arrange_overlays(overlay, "", "")
    (element, *_) = ET.fromstring(overlays_file(overlay, "svg")).iter(f"{SVG}image")
    content = element.attrib["{http://www.w3.org/1999/xlink}href"].partition(",")[2]
    with Image.open(BytesIO(b64decode(content))) as panel:
        assert panel.size == (finer * plan.width, finer * plan.height)


PLOTS = [
    Lines([Series("a name", [1, 2], [1, 2]), Series("b", [1, 2], [2, 1])], names="ends"),
    Dots([Dot("a name", 0.5)]),
    Cells(np.eye(3), title="a name"),
    Bubbles([Series("a name", [1.0], [2.0], areas=[3.0])]),
]


@pytest.mark.parametrize("panel", PLOTS)
def test_plots_have_real_text(panel: Lines | Dots | Cells | Bubbles) -> None:
    svg = plot_file([panel], "svg", title="the title")
    assert any("a name" in text for text in texts(svg)) and "the title" in texts(svg)
    assert plot_file([panel], "png").startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_the_same_picture_is_the_same_file(kind: Format) -> None:
    for draw in (lambda: heatmaps_file(maps(3, 3), kind), lambda: plot_file(PLOTS[:1], kind)):
        assert draw() == draw()


def test_words_are_no_programs_for_latex() -> None:
    """A matplotlibrc may say that LaTeX writes all text; it would run a word such as an `input` of a file."""
    expected = heatmaps_file(maps(3, 4), "svg", title="a_b")
    with rc_context({"text.usetex": True}):
        assert heatmaps_file(maps(3, 4), "svg", title="a_b") == expected


@pytest.mark.long
def test_a_pdf_embeds_its_font_as_text() -> None:
    for pdf in (heatmaps_file(maps(3, 3), "pdf", title="in"), plot_file(PLOTS[:1], "pdf")):
        assert pdf.startswith(b"%PDF") and b"/FontFile2" in pdf
        streams = [part.split(b"\nendstream")[0] for part in pdf.split(b"stream\n")[1:]]
        pages = b"".join(zlib.decompress(one) for one in streams if one[:1] == b"x")
        assert b"Tj" in pages or b"TJ" in pages  # the operators that show text


@pytest.mark.long
def test_what_is_left_out_or_cannot_be_drawn_is_told_as_in_the_png() -> None:
    one = maps(1, 2)[1]
    assert "heads   (first 64 maps, 1 left out)" in texts(heatmaps_file([one] * 65, "svg", title="heads"))
    with pytest.raises(ValueError, match="no heatmaps to draw"):
        heatmaps_file([], "svg")
    overlay = Overlay(np.eye(2), 1, np.full((1, 4), 0.25))
    for maximum in (0.0, float("nan")):
        with pytest.raises(ValueError, match="must be positive"):
            heatmaps_file([one], "svg", maximum=maximum)
        with pytest.raises(ValueError, match="must be positive"):
            overlays_file(overlay, "svg", maximum=maximum)
