"""Views on phones and in narrow frames: nothing is cut off, and everything is large enough to press."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

import attention_lab
from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

LETTERS = list("abcdefghijklmnopqrst")
WEIGHTS = np.full((2, len(LETTERS), len(LETTERS)), 1 / len(LETTERS), np.float32)
TOO_NEAR = """((some, least) => {
  const boxes = some.filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect());
  const middle = ({left, top, width, height}) => [left + width / 2, top + height / 2];
  const small = boxes.filter(({width, height}) => Math.min(width, height) < least);
  return small.flatMap((one) => boxes.filter((other) => other !== one && Math.hypot(
    middle(one)[0] - middle(other)[0], middle(one)[1] - middle(other)[1]) < least)).length;
})"""
"""How many targets smaller than some pixels have another whose middle is nearer than that."""


@pytest.fixture
def narrow(browser: Browser) -> Iterator[Callable[[Path, int, str], Browser]]:
    """Open a page in a window of some width."""

    def opened(page: Path, width: int, view: str = "") -> Browser:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        browser.open(f"{page.as_uri()}#{view}")
        return browser

    yield opened
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("width", [300, 320, 390])
@pytest.mark.parametrize("view", ["map", "lines"])
def test_a_figure_fits_a_narrow_page(
    narrow: Callable[..., Browser], tmp_path: Path, width: int, view: str
) -> None:
    page = attention_lab.show(WEIGHTS, LETTERS).save(tmp_path / "view.html")
    browser = narrow(page, width, f"view={view}")
    figure = (
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.querySelector('.al-figure'))"
    )
    needed, given = browser.run(figure)
    assert needed <= given


def test_a_long_number_of_steps_fits_a_narrow_page(narrow: Callable[..., Browser], tmp_path: Path) -> None:
    record = encode(AttentionRecord(WEIGHTS, LETTERS, LETTERS))
    records = {"example 1/decoder": {12_345_678 + step: record for step in range(24)}}
    (tmp_path / "report.html").write_text(make_page(Heading("title"), [Run("run", records=records)]))
    browser = narrow(tmp_path / "report.html", 320)
    edges = "['.al-step', '.al-main'].map((one) => document.querySelector(one).getBoundingClientRect().right)"
    said, page = browser.run(edges)
    assert said <= page
    step = "document.querySelector('.al-step')"
    assert browser.run(f"{step}.scrollWidth <= {step}.clientWidth")


def test_a_title_is_not_cut_off_on_a_phone(narrow: Callable[..., Browser], tmp_path: Path) -> None:
    """Where nothing shows the rest of it."""
    page = attention_lab.show(WEIGHTS, LETTERS, title="W" * 30 + " words" * 12).save(tmp_path / "view.html")
    title = "document.querySelector('.al-title')"
    assert narrow(page, 390).run(f"{title}.scrollWidth <= {title}.clientWidth")


@pytest.mark.parametrize("width", [320, 390])
def test_what_can_be_pressed_is_24_pixels_large_or_apart(
    narrow: Callable[..., Browser], tmp_path: Path, width: int
) -> None:
    """WCAG 2.2, 2.5.8."""
    record = encode(AttentionRecord(WEIGHTS, LETTERS, LETTERS))
    page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record, 1: record}})])
    (tmp_path / "report.html").write_text(page)
    browser = narrow(tmp_path / "report.html", width, "view=lines")
    targets = "[...document.querySelectorAll('button, input, select, summary')]"
    assert browser.run(f"{targets}.length") > 50
    assert browser.run(f"{TOO_NEAR}({targets}, 24)") == 0
    heights = "[...document.querySelectorAll('input')].filter((one) => one.checkVisibility())"
    assert min(browser.run(f"{heights}.map((one) => one.getBoundingClientRect().height)")) >= 24
