"""Pages with extreme numbers, or very many of something, in a real browser."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        pytest.param([1e17], [1e17, 1e17], id="equal"),
        pytest.param([1e300], [1e300, np.nextafter(1e300, np.inf)], id="neighbours"),
        pytest.param([5e-324], [-5e-324, 5e-324], id="tiny"),
        pytest.param([0.0], [-1.7e308, 1.7e308], id="enormous"),
        pytest.param([0.5], np.linspace(0, 1, 130_000), id="many", marks=pytest.mark.slow),
    ],
)
def test_any_positions_on_an_axis_can_be_shown(
    browser: Browser, tmp_path: Path, queries: Sequence[float], keys: Sequence[float]
) -> None:
    weights = np.full((1, 1, len(keys)), 1 / len(keys), np.float32)
    record = AttentionRecord(weights, ["q"], ["k"] * len(keys), x=(np.array(queries), np.array(keys)))
    path = tmp_path / "report.html"
    page = make_page(Heading("title"), [Run("a", records={"example 1/attention": {0: encode(record)}})])
    path.write_text(page, encoding="utf-8")
    browser.open(path.as_uri())
    assert not browser.complaints()


@pytest.mark.parametrize(
    "points",
    [
        [(2**63 - 2048, 1.0), (2**63 - 1, 2.0)],
        [(2**54 - 2, -3.4e38), (2**54 - 1, 3.4e38)],
        [(-(2**63), 1e-45), (2**63 - 1, 3e-45)],
        [(5, 1.0), (5, 1.0)],
    ],
)
def test_any_steps_and_numbers_can_be_drawn(
    browser: Browser, tmp_path: Path, points: Sequence[tuple[int, float]]
) -> None:
    page = make_page(Heading("title"), [Run("a", curves={"validation/loss": points})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelectorAll('.chart').length === 1")
    assert not browser.complaints()


def test_the_long_curves_of_very_many_runs_can_be_drawn(browser: Browser, tmp_path: Path) -> None:
    points = [(step, 1 / (step + 1)) for step in range(1000)]
    page = make_page(
        Heading("title"), [Run(f"run {number}", curves={"train/loss": points}) for number in range(140)]
    )
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    lines = "document.querySelectorAll('.chart path').length"
    browser.open((tmp_path / "report.html").as_uri(), f"{lines} === 140")
    assert not browser.complaints()


def test_names_of_any_length_and_height_stay_in_their_place(browser: Browser, tmp_path: Path) -> None:
    """Very many accents on one letter would be drawn over everything above it."""
    tall = "e" + "\u0301" * 150
    curves = {f"validation/{name}": [(0, 1.0), (1, 2.0)] for name in ("W" * 200, tall)}
    page = make_page(Heading("title"), [Run("a", curves=curves)])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelectorAll('.chart').length === 2")
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    names = browser.run("[...document.querySelectorAll('.chart figcaption')].map((one) => one.textContent)")
    assert sorted(names) == ["W" * 200, tall[:9]]


@pytest.mark.slow
def test_of_very_many_heads_the_first_are_listed(browser: Browser, tmp_path: Path) -> None:
    record = encode(AttentionRecord(np.full((6000, 1, 1), 1, np.float32), ["q"], ["k"]))
    records = {f"example 1/{module}": {0: record} for module in "ab"}
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading("title"), [Run("a", records=records)]), encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.run("document.querySelectorAll('.al-tile').length") == 10_000
    blank = "[...document.querySelectorAll('.al-tile canvas')].filter(({style}) => !style.width).length"
    assert browser.run(blank) > 9000  # those out of view are not painted yet
    browser.run("document.querySelector('.al-overview').lastChild.scrollIntoView()")
    browser.wait("document.querySelectorAll('.al-tile canvas')[9999].style.width !== ''")
    assert browser.run("document.querySelector('.al-overview').lastChild.textContent") == "2,000 more heads"
    assert not browser.complaints()


def test_gold_keys_that_repeat_are_drawn_once(browser: Browser, tmp_path: Path) -> None:
    """A header of 14 MB may repeat one key millions of times, each of which was an outline."""
    gold = np.zeros((2, 3_500_000), np.int64)
    record = AttentionRecord(np.full((1, 2, 2), 0.5, np.float32), ["q", "r"], ["a", "b"], gold=gold)
    page = make_page(Heading("title"), [Run("a", records={"example 1/attention": {0: encode(record)}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    assert not browser.complaints()


def test_very_many_gold_cells_are_left_out(browser: Browser, tmp_path: Path) -> None:
    gold = np.tile(np.arange(400), (400, 1))
    weights = np.full((1, 400, 400), 1 / 400, np.float32)
    record = AttentionRecord(weights, ["q"] * 400, ["k"] * 400, gold=gold)
    page = make_page(Heading("title"), [Run("a", records={"example 1/attention": {0: encode(record)}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    said = browser.run("document.querySelector('.al-message').textContent")
    assert said == "160,000 gold cells, too many to outline" and not browser.complaints()


def test_of_very_many_examples_the_first_are_samples(browser: Browser, tmp_path: Path) -> None:
    record = encode(AttentionRecord(np.ones((1, 1, 1), np.float32), ["q"], ["k"]))
    records = {f"example {number}/attention": {0: record} for number in range(4000)}
    page = make_page(Heading("title"), [Run("a", records=records)])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run("document.querySelectorAll('.sample').length") == 200
    assert "Only 200 examples are shown" in browser.run("document.body.innerText")
    assert not browser.complaints()


def test_records_that_would_fill_the_memory_are_left_out(
    browser: Browser, serving: Any, tmp_path: Path
) -> None:
    """A record of 60 KB may decompress to 64 MB, and an example may have thousands."""
    (tmp_path / "logs").mkdir()
    with serving(tmp_path / "logs", tmp_path / "output") as server:
        page = f"http://localhost:{server.port}{server.prefix}data/plugin_entry.html?name=attention_lab"
        browser.open(page)
        found = browser.run("""(async () => {
          const {Shelf} = await import(new URL('static/viewer/source.js', document.baseURI));
          const header = {kind: 'sequence', shape: [1, 500, 500]}; // half a million bytes
          const answer = () => ({header, weights: new Uint16Array(250_000)});
          const shelf = new Shelf({record: () => new Promise((done) => setTimeout(() => done(answer()), 5))});
          const slots = Array.from({length: 40}, (_, step) => shelf.slot({run: '', tag: '', step, time: 0}));
          shelf.limit(slots, () => true, 10_000_000);
          await Promise.all(slots.map(({done}) => done));
          return slots.map(({record, problem}) => (record ? '' : problem));
        })()""")
    assert 20 <= found.count("") <= 26 and all(said.startswith("left out") for said in found[26:])


def test_a_query_without_keys_has_no_entropy(browser: Browser, tmp_path: Path) -> None:
    mask = np.array([[[True, False], [False, False]]])
    record = AttentionRecord(mask.astype(np.float32), list("ab"), list("xy"), mask=mask)
    path = tmp_path / "report.html"
    page = make_page(Heading("title"), [Run("a", records={"example 1/attention": {0: encode(record)}})])
    path.write_text(page, encoding="utf-8")
    for query, said in enumerate(["row sum 1.000", "row sum no key"]):
        browser.open(f"{path.as_uri()}#view=map&query={query}&key=0")
        text = browser.run("document.querySelector('.al-readout').innerText.replace(/\\s+/g, ' ')")
        assert said in text
        assert ("entropy" in text) == (query == 0)
