"""The report in a real browser: what it says, in which order, and on how narrow a page."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium import CHROMIUM, Browser

from attention_lab.tensorboard_plugin import AttentionRecord, encode
from attention_lab.tensorboard_plugin.report import Run, make_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(5), (2, 4)).astype(np.float32)


def test_the_report_tells_what_matters_first_and_fits_a_phone(browser: Browser, tmp_path: Path) -> None:
    record = encode(AttentionRecord(WEIGHTS, list("wxyz"), list("abcde"), module="decoder"))
    runs = [
        Run(
            f"sweep/{name}",
            {"scoring": name, "monitor.mode": "min", "data": "cmudict"},
            {"test/loss": 1.0, "test/error_rate": rate, "test/hit_rate head 1": 0.5, "fit/seconds": 9.0},
            {
                "train/loss": [(0, 3.0), (150, 1.0)],
                "validation/loss": [(50, 1.43), (100, 0.61)],
                **{f"weights/heads/entropy/decoder head {n}": [(0, 1.0), (9, 0.1 * n)] for n in (1, 2)},
            },
            {"example 1/decoder": {7: record}},
            samples=[("sh", "SH", "SH"), ("x", "Y", "Z")],
            confusions=[("A → B", "6", "an example")],
            worst=[(f"{n}", "wrong " * 40, "right", "4") for n in range(12)],
            headline="test/error_rate",
        )
        for name, rate in (("additive", 0.25), ("dot", 0.5))
    ]
    for count in (1, 2):
        path = tmp_path / f"report{count}.html"
        path.write_text(make_page("title", "about", runs[:count]), encoding="utf-8")
        browser.open(path.as_uri())
        browser.wait(f"document.querySelectorAll('.sample canvas').length === {2 * count}")
        text = browser.run("document.body.innerText")
        assert [text.count(word) for word in ("Commonest", "A → B", "2 more")] == [count] * 3
        lines = "[...document.querySelectorAll('.chart')].map((one) => one.querySelectorAll('path').length)"
        assert browser.run(lines) == [2 * count, 2 * count]  # loss, and the heads of the decoder
        axes = "[...document.querySelectorAll('.chart')].map((one) => one.querySelectorAll('.rule').length)"
        assert min(browser.run(axes)) >= 3
        folded = "[...document.querySelectorAll('details:not([open])')].map((one) => one.innerText)"
        assert any("head" in one for one in browser.run(folded)) and "hit_rate" not in text
        for width in (390, 1000):
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=844, deviceScaleFactor=1, mobile=False,
            )  # fmt: skip
            assert browser.run("document.documentElement.scrollWidth") <= width
        browser.call("Emulation.clearDeviceMetricsOverride")
        assert not browser.complaints()
    assert browser.run("document.querySelector('.runs .best').innerText").startswith("0.25")
    head = browser.run("[...document.querySelectorAll('.runs thead th')].map((one) => one.innerText)")
    assert head == ["run", "scoring", "error_rate", "loss"]
    browser.open(tmp_path.joinpath("report1.html").as_uri())
    assert browser.run("document.querySelector('.card').innerText").split() == ["error", "rate", "0.25"]


SAVED_SVG = """(async () => {
  const made = URL.createObjectURL, blobs = [];
  URL.createObjectURL = (blob) => { blobs.push(blob); return made(blob); };
  document.querySelector('[data-act=svg]').click();
  while (!blobs.length) await new Promise((resolve) => setTimeout(resolve, 20));
  URL.createObjectURL = made;
  return blobs[0].text();
})()"""


@pytest.mark.parametrize(("size", "vectors"), [(6, True), (90, True), (120, False)])
def test_a_saved_map_has_vector_cells_up_to_a_size(
    browser: Browser, tmp_path: Path, size: int, vectors: bool
) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(size), (1, size)).astype(np.float32)
    mask = np.tril(np.ones((1, size, size), bool))
    names = [f"<{n}>" for n in range(size)]
    record = encode(AttentionRecord(np.where(mask, weights, 0), names, names, mask=mask))
    path = tmp_path / "report.html"
    run = Run("run", records={"example 1/decoder": {0: record}})
    path.write_text(make_page("title", "", [run]), encoding="utf-8")
    browser.open(path.as_uri())
    svg = browser.run(SAVED_SVG)
    assert ("<image" in svg) == (not vectors)
    assert "&lt;0&gt;</text>" in svg
    if vectors:
        colours = {part.split('"')[0] for part in svg.split('fill="rgb(')[1:]}
        assert len(colours) > 4
    if size == 6:
        assert svg.count("<rect") >= 2 * 15  # cells with weights, and as many that are masked
    assert not browser.complaints()
