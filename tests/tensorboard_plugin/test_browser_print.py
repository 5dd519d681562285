"""The report on paper: in light colours, and with nothing in boxes that scroll."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Result, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(12), (1, 12)).astype(np.float32)
COLOURS = """(() => [
  document.documentElement.dataset.theme,
  document.querySelector('.al-viewer').dataset.theme,
  document.querySelector('.sample canvas').toDataURL(),
])()"""


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """A report on two runs with many numbers, on a dark system."""
    labels = list("abcdefghijkl")
    record = encode(AttentionRecord(WEIGHTS, labels, labels, input="abcdefghijkl", module="decoder"))
    results = [Result(f"test/{n}", f"a metric with a long name {n}", "1.000") for n in range(12)]
    runs = [Run(name, results=results, records={"example 1/decoder": {0: record}}) for name in "ab"]
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading("title"), runs), encoding="utf-8")
    _emulate(browser, "screen", "dark")
    browser.open(path.as_uri())
    browser.wait("document.querySelectorAll('.sample canvas').length === 2")
    yield browser
    _emulate(browser, "", "light")


def _emulate(browser: Browser, media: str, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", media=media, features=features)


def test_a_dark_report_is_printed_in_light_colours(report: Browser) -> None:
    dark = report.run(COLOURS)
    assert dark[:2] == ["dark", "dark"]
    report.run("dispatchEvent(new Event('beforeprint'))")
    printed = report.run(COLOURS)
    assert printed[:2] == ["light", "light"] and printed[2] != dark[2]
    report.run("dispatchEvent(new Event('afterprint'))")
    assert report.run(COLOURS) == dark


def test_nothing_that_is_printed_scrolls(report: Browser) -> None:
    _emulate(report, "print", "light")
    names = ".scroll, .viewer, .al-overview, .al-example, .al-tokens, .al-figure"
    boxes = f"[...document.querySelectorAll('{names}')]"
    assert report.run(f"{boxes}.length") > 5
    hidden = "({overflowX: x, overflowY: y}) => x !== 'visible' || y !== 'visible'"
    assert report.run(f"{boxes}.map(getComputedStyle).filter({hidden}).length") == 0
    for part in (".theme", ".al-over"):  # a button; a canvas that Chromium prints white, over the map
        assert report.run(f"getComputedStyle(document.querySelector('{part}')).display") == "none"


def test_no_control_is_printed(browser: Browser, tmp_path: Path) -> None:
    """Paper showed the buttons that zoom, the search, and the slider of the steps."""
    labels = [f"token {at}" for at in range(200)]
    record = encode(AttentionRecord(np.full((1, 200, 200), 1 / 200, np.float32), labels, labels))
    page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record, 1: record}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    controls = """[...document.querySelectorAll('button, input')].filter((one) =>
      !one.matches('.al-tile, .al-token') && one.checkVisibility()).length"""
    assert browser.run(controls) > 15
    _emulate(browser, "print", "light")
    assert browser.run(controls) == 0
    said = ["document.querySelector('.al-step')", "document.querySelector('.al-shown')"]
    assert all(browser.run(f"{one}.checkVisibility()") for one in said)
    _emulate(browser, "", "light")


def test_on_narrow_paper_the_heads_and_the_map_are_not_rows_of_a_grid(report: Browser) -> None:
    """Firefox began a new page with the map, even if it fitted below the heads."""
    window = {"width": 720, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    report.call("Emulation.setDeviceMetricsOverride", **window)
    display = "getComputedStyle(document.querySelector('.al-body')).display"
    assert report.run(display) == "grid"
    _emulate(report, "print", "light")
    assert report.run(display) == "block"
    report.call("Emulation.clearDeviceMetricsOverride")


def test_names_of_runs_are_printed_in_the_colours_of_their_lines(report: Browser) -> None:
    """Chromium darkens text on paper, but not lines."""
    _emulate(report, "print", "light")
    names = "[...document.querySelectorAll('.called')].map((one) => getComputedStyle(one).printColorAdjust)"
    assert report.run(names) == ["exact", "exact"]


def test_the_key_of_the_curves_is_printed_on_the_page_of_the_first_ones(
    browser: Browser, tmp_path: Path
) -> None:
    """It stood with its heading at the end of a page, and all curves on the next."""
    runs = [Run(name, curves={"validation/loss": [(0, 1.0), (1, 2.0)]}) for name in "ab"]
    (tmp_path / "report.html").write_text(make_page(Heading("title"), runs), encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.chart') !== null")
    _emulate(browser, "print", "light")
    kept = "getComputedStyle(document.querySelector('section > .key')).breakAfter"
    assert browser.run(kept) == "avoid"
    _emulate(browser, "", "light")


def test_a_table_of_any_width_fits_on_paper(browser: Browser, tmp_path: Path) -> None:
    """Chromium shrinks a page by a third at most: of A4 in portrait, it shows 1077 pixels."""
    results = [Result(f"test/{n}", f"the metric {n}", "1.000", kind="headline") for n in range(40)]
    page = make_page(Heading("title"), [Run(name, results=results) for name in "ab"])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False
    )
    _emulate(browser, "print", "light")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.runs') !== null")
    width = "document.querySelector('.runs').getBoundingClientRect().width"
    assert browser.run(width) > 2000
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert 700 < browser.run(width) < 1077
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(width) > 2000
    _emulate(browser, "", "light")
    browser.call("Emulation.clearDeviceMetricsOverride")
