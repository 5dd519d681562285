"""The samples of the report in a real browser: each output with its own input and attention."""

from pathlib import Path

import numpy as np
import pytest
from chromium import CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")

CARDS = """[...document.querySelectorAll('.sample')].map((card) => [
  card.querySelector('h3').textContent,
  card.querySelector('.outputs b')?.textContent ?? '',
  new URLSearchParams(card.querySelector('.maps').hash.slice(1)).get('example'),
])"""


def _open(browser: Browser, path: Path, run: Run) -> None:
    path.write_text(make_page(Heading("title"), [run]), encoding="utf-8")
    browser.open(path.as_uri())


def _record() -> tuple[bytes, bytes]:
    return encode(AttentionRecord(np.full((1, 1, 2), 0.5, np.float32), ["q"], ["a", "b"]))


def test_a_sample_is_beside_the_attention_of_its_own_example(browser: Browser, tmp_path: Path) -> None:
    """Tags are in alphabetical order, in which example 10 comes before example 2."""
    numbers = range(1, 13)
    records = {f"example {number}/attention": {0: _record()} for number in sorted(numbers, key=str)}
    samples = [(f"in {number}", f"out {number}", "") for number in numbers]
    _open(browser, tmp_path / "report.html", Run("a", records=records, samples=samples))
    assert browser.run(CARDS) == [[f"in {n}", f"out {n}", f"example {n}"] for n in numbers]


def test_a_sample_whose_example_has_no_attention_is_beside_no_other(browser: Browser, tmp_path: Path) -> None:
    records = {f"{name}/attention": {0: _record()} for name in ("example 2", "hard case 1")}
    samples = [("in 1", "out 1", ""), ("in 2", "out 2", "")]
    _open(browser, tmp_path / "report.html", Run("a", records=records, samples=samples))
    assert browser.run(CARDS) == [["in 2", "out 2", "example 2"], ["hard case 1", "", "hard case 1"]]


@pytest.mark.parametrize("step", [2**53 + 1, 2**63 - 1, -(2**63) + 1])
def test_a_step_that_is_no_number_of_javascript_can_be_shown(
    browser: Browser, tmp_path: Path, step: int
) -> None:
    _open(browser, tmp_path / "report.html", Run("a", records={"example 1/attention": {step: _record()}}))
    browser.wait("document.querySelectorAll('.sample canvas').length === 1")
    assert not browser.run("document.querySelector('.al-figure').hidden") and not browser.complaints()


def test_a_sample_whose_record_is_damaged_says_so(browser: Browser, tmp_path: Path) -> None:
    header, body = _record()
    damaged = header.replace(b'"shape":[1,1,2]', b'"shape":[1,1,9]'), body
    records = {"example 1/attention": {0: damaged}, "example 2/attention": {0: _record()}}
    _open(browser, tmp_path / "report.html", Run("a", records=records))
    browser.wait("document.querySelectorAll('.sample canvas').length === 1")
    said = browser.run("[...document.querySelectorAll('.maps')].map((one) => one.textContent)")
    assert said == ["a record of shape 1 × 1 × 9 holds 2 weights", ""] and not browser.complaints()


COUNT = """(() => {
  const read = Response.prototype.arrayBuffer;
  Object.assign(window, {most: 0, now: 0});
  Response.prototype.arrayBuffer = function () {
    window.most = Math.max(window.most, window.now += 1);
    return read.call(this).finally(() => (window.now -= 1));
  };
})()"""


def test_few_records_are_unpacked_at_a_time(browser: Browser, tmp_path: Path) -> None:
    """A record of 60 KB may unpack to 64 MB."""
    records = {f"example {number}/attention": {0: _record()} for number in range(1, 41)}
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=COUNT)["identifier"]
    _open(browser, tmp_path / "report.html", Run("a", records=records))
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    browser.wait("document.querySelectorAll('.sample canvas').length === 40")
    assert 1 <= browser.run("most") <= 12  # six for the samples, and as many for the view of all attention
    browser.run("document.querySelector('button.theme').click()")
    assert browser.run("document.querySelectorAll('.sample canvas').length") == 40
    assert not browser.complaints()
