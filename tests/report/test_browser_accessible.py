"""What a screen reader says of a report."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, READY, Browser, names_of

from attention_lab.report.html_file import Heading, Result, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

UNNAMED = """[...document.querySelectorAll('button, input, select')].filter((one) =>
  !/\\p{L}/u.test(one.ariaLabel ?? one.textContent)).map(({outerHTML}) => outerHTML)"""


def test_every_control_has_a_name(browser: Browser, tmp_path: Path) -> None:
    """The button for dark colours was read as a circle."""
    labels = [f"token {at}" for at in range(200)]
    record = encode(AttentionRecord(np.full((2, 200, 200), 1 / 200, np.float32), labels, labels))
    page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record, 1: record}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run("document.querySelectorAll('button, input, select').length") > 20
    assert browser.run(UNNAMED) == []


def _open(browser: Browser, folder: Path, *runs: Run) -> None:
    page = folder / "report.html"
    page.write_text(make_page(Heading("title"), runs), encoding="utf-8")
    shown = "document.querySelector('.viewer') === null && document.querySelector('main') !== null"
    browser.open(page.as_uri(), f"{READY} || {shown}")


def test_the_links_of_samples_say_which_sample_and_run(browser: Browser, tmp_path: Path) -> None:
    """A list of links read "head 1, head 1, …"."""
    record = encode(AttentionRecord(np.full((1, 2, 2), 1 / 2, np.float32), ["w", "x"], ["a", "b"]))
    records = {f"example {at}/decoder": {0: record} for at in (1, 2)}
    samples = [("one", "1", "1"), ("two", "2", "2")]
    runs = [Run(name, records=records, samples=samples) for name in ("dot", "additive")]
    _open(browser, tmp_path, *runs)
    browser.wait("document.querySelectorAll('.sample canvas').length === 4")
    assert names_of(browser, "link") == [
        f"{sample}, {run}: decoder head 1" for sample in ("one", "two") for run in ("dot", "additive")
    ]


def test_the_content_is_the_main_part_and_its_headings_skip_no_level(
    browser: Browser, tmp_path: Path
) -> None:
    record = encode(AttentionRecord(np.full((2, 2, 2), 1 / 2, np.float32), ["w", "x"], ["a", "b"]))
    worst = [("a", "b", "c", "1")]
    _open(
        browser,
        tmp_path,
        Run("run", records={"example 1/decoder": {0: record}}, worst=worst, confusions=worst),
    )
    assert browser.run("document.querySelectorAll('main').length") == 1
    outside = (
        "[...document.querySelectorAll('section, article')].filter((one) => !one.closest('main')).length"
    )
    assert browser.run(outside) == 0
    levels = browser.run(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map(({localName}) => +localName[1])"
    )
    assert levels[0] == 1
    assert all(later <= level + 1 for level, later in pairwise(levels)), levels


def test_keys_read_the_curves(browser: Browser, tmp_path: Path) -> None:
    """As pointing at a curve does."""
    curves = {"validation/loss": [(0, 3.0), (10, 2.0), (20, 1.0)], "train/loss": [(5, 2.5), (20, 0.5)]}
    _open(browser, tmp_path, Run("run", curves=curves))
    assert names_of(browser, "slider") == ["loss"]
    browser.run("document.querySelector('.chart svg').focus()")
    said = []
    for key in ("ArrowLeft", "Home", "ArrowRight", "End", "ArrowRight"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        said.append(browser.run("document.querySelector('.chart svg').ariaValueText"))
    last = "step 20: validation 1.000, train 0.5000"
    assert said == [
        "step 10: validation 2, train 2.500",
        "step 0: validation 3, train 2.500",
        "step 5: validation 3, train 2.500",
        last,
        last,
    ]
    assert browser.run("document.querySelector('.chart .step').textContent") == "step 20"
    browser.run("document.activeElement.blur()")
    assert browser.run("document.querySelector('.chart .step').textContent") == ""


@pytest.mark.parametrize(("width", "places"), [(390, [0]), (1400, [-1])])
def test_a_table_that_is_wider_than_the_page_takes_the_focus(
    browser: Browser, tmp_path: Path, width: int, places: list[int]
) -> None:
    """So that keys scroll it."""
    resized = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **resized)
    try:
        numbers = [Result(f"test/{name}", name * 12, "0.5000", kind="headline") for name in "abcdef"]
        runs = [Run(name, results=numbers) for name in ("dot", "additive")]
        _open(browser, tmp_path, *runs)
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert (
            browser.run("[...document.querySelectorAll('.scroll:has(.runs)')].map((one) => one.tabIndex)")
            == places
        )
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize(("wanted", "behavior"), [("no-preference", "smooth"), ("reduce", "auto")])
def test_a_link_scrolls_as_the_system_wants(
    browser: Browser, tmp_path: Path, wanted: str, behavior: str
) -> None:
    record = encode(AttentionRecord(np.full((1, 2, 2), 1 / 2, np.float32), ["w", "x"], ["a", "b"]))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": wanted}])
    try:
        _open(browser, tmp_path, Run("run", records={"example 1/decoder": {0: record}}))
        browser.run("Element.prototype.scrollIntoView = ({ behavior }) => { window.scrolled = behavior; }; 0")
        browser.run("document.querySelector('.maps').click()")
        assert browser.run("window.scrolled") == behavior
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_a_legend_keeps_its_colours_where_colours_are_forced(browser: Browser, tmp_path: Path) -> None:
    """Else nothing tells which line is which run's."""
    curves = {"validation/loss": [(0, 3.0), (10, 2.0)]}
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    try:
        _open(browser, tmp_path, *(Run(name, curves=curves) for name in "abc"))
        colours = "((some) => [...document.querySelectorAll(some)].map((one) => getComputedStyle(one).color))"
        legend = browser.run(f"{colours}('.chart .key > span')")
        assert len({*legend}) == 3
        assert legend == browser.run(f"{colours}('.chart path')")
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_the_step_is_said_unless_it_plays(browser: Browser, tmp_path: Path) -> None:
    record = encode(AttentionRecord(np.full((1, 2, 2), 1 / 2, np.float32), ["w", "x"], ["a", "b"]))
    _open(browser, tmp_path, Run("run", records={"example 1/decoder": dict.fromkeys(range(9), record)}))
    live = "document.querySelector('.al-step').ariaLive"
    assert browser.run(live) == "polite"
    browser.run("document.querySelector('[data-act=play]').click()")
    browser.wait(f"{live} === 'off'")
