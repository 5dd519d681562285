"""The view as a page, a frame and pictures."""

import html
import re
import xml.etree.ElementTree as ElementTree
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import attention_lab
from attention_lab.notebook import view as module

RNG = np.random.default_rng(0)
WEIGHTS = RNG.dirichlet(np.ones(5), (2, 4)).astype(np.float32)
HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\0\x1b\ud800", "&lt;"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view() -> Any:
    return attention_lab.show(WEIGHTS, HOSTILE, list("abcde"), title=HOSTILE[0])


def test_a_notebook_shows_a_frame_that_can_do_nothing_outside_of_itself(view: Any) -> None:
    shown = view._repr_html_()
    pattern = r'<style>[^<>]*</style><iframe sandbox="([^"]*)" ([^<>]*) srcdoc="([^"<>]*)">[\w .]+</iframe>'
    frame = re.fullmatch(pattern, shown)
    assert frame is not None
    assert frame[1].split() == ["allow-scripts", "allow-downloads"]  # neither its origin nor its top
    assert html.unescape(frame[3]) == view.html


@pytest.mark.parametrize(
    ("rows", "given", "pixels"),
    [(1, None, 520), (4, None, 620), (8, None, 672), (99, None, 800), (8, 300, 300)],
)
def test_the_frame_is_as_high_as_its_rows_need_unless_told(rows: int, given: int | None, pixels: int) -> None:
    view = attention_lab.show(np.full((rows, 2), 0.5, np.float32), height=given)
    assert f"height:calc({pixels}px + " in view._repr_html_()


def test_the_page_loads_nothing(view: Any) -> None:
    assert "default-src 'none'" in view.html
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", view.html)
    assert "<img" not in view.html and view.html.count("<script") == 3  # data, one record, the script


def test_it_can_be_saved(view: Any, tmp_path: Path) -> None:
    assert view.save(tmp_path / "a.html").read_text(encoding="utf-8") == view.html
    assert view.save(str(tmp_path / "a.png")).read_bytes() == view.png()
    assert view.save(tmp_path / "a.svg").read_text(encoding="utf-8") == view.svg()
    with pytest.raises(ValueError, match=r"a\.pdf: the name must end in \.html, \.png or \.svg"):
        view.save(tmp_path / "a.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "a.svg"]


def test_the_png_is_a_picture(view: Any) -> None:
    image = Image.open(BytesIO(view.png()))
    assert image.format == "PNG" and min(image.size) > 100


def test_the_svg_has_text_and_vectors(view: Any) -> None:
    root = ElementTree.fromstring(view.svg())
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert all(key in texts for key in "abcde") and HOSTILE[3] in texts
    assert any(text.startswith("</script>") for text in texts)
    assert not list(root.iter(f"{SVG}image")) and not list(root.iter(f"{SVG}script"))
    assert len(list(root.iter(f"{SVG}path"))) > WEIGHTS.size


def test_an_svg_of_many_cells_is_a_picture_inside() -> None:
    root = ElementTree.fromstring(attention_lab.show(np.full((1, 300, 300), 1 / 300)).svg())
    assert len(list(root.iter(f"{SVG}image"))) == 1
    assert len(ElementTree.tostring(root)) < 100_000


def test_masked_and_gold_cells_of_the_svg() -> None:
    mask = np.tril(np.ones((4, 5), bool))
    svg = attention_lab.show(WEIGHTS[:1], mask=mask, gold=[0, 1, 2, -1]).svg()
    assert svg.count("fill: url(#") == (~mask).sum() + 1  # and the one of the legend
    assert svg.count("stroke-width: 1.5;") == 3
    assert ">masked<" in svg and ">gold<" in svg


def test_one_of_several_attentions_can_be_drawn() -> None:
    view = attention_lab.show({"one": WEIGHTS, "two": 1 - WEIGHTS})
    assert view.svg("example 1/one") == view.svg() != view.svg("example 1/two")
    with pytest.raises(ValueError, match="there is no record 'three'; choose from 'example 1/one', 'example"):
        view.png("three")


def test_it_says_what_it_is(view: Any) -> None:
    assert repr(view) == "View(1 attention, 2 x 4 x 5): .save('attention.html'), .png(), .svg()"


def test_a_page_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1 << 20)
    view = attention_lab.show({str(number): np.zeros((8, 200, 200)) for number in range(2)})
    with pytest.raises(
        ValueError, match=r"the weights take 1 MiB, more than the 1 MiB that a page can hold: choose some"
    ):
        _ = view.html
