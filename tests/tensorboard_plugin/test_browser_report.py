"""The report in a real browser: what it says, in which order, and on how narrow a page."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, SAVED_SVG, Browser

from attention_lab.report.html_file import Comparison, Heading, Result, Run, Table, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode
from attention_lab.text_tables import number

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(5), (2, 4)).astype(np.float32)


def _runs(names: Sequence[str]) -> list[Run]:
    """Runs with results, curves, samples and errors."""
    record = encode(AttentionRecord(WEIGHTS, list("wxyz"), list("abcde"), module="decoder"))
    return [
        Run(
            name,
            {"scoring": name, "monitor.mode": "min", "data": "cmudict", "seed": "1", "data.seed": "1"},
            [
                Result("test/error_rate", "error rate", f"0.{place}500", "0.1000 to 0.9000", "headline"),
                Result("test/loss", "loss", "1.000"),
                Result("test/hit_rate head 1", "hit rate head 1", "0.5000", "", "head"),
            ],
            {
                "train/loss": [(0, 3.0), (150, 1.0)],
                "validation/loss": [(50, 1.43), (100, 0.61)],
                "train/learning_rate": [(0, 0.1), (9, 0.2)],
                **{f"weights/heads/entropy/decoder head {n}": [(0, 1.0), (9, 0.1 * n)] for n in (1, 2)},
                **{f"validation/mass/head_{n}": [(0, 1.0), (9, 0.1 * n)] for n in (1, 2)},
            },
            {"example 1/decoder": {7: record}},
            samples=[("sh", "SH", "SH"), ("x", "Y", "Z")],
            confusions=[("A → B", "6", "an example")],
            worst=[(f"{n}", "wrong " * 40, "right", "4") for n in range(12)],
        )
        for place, name in enumerate(names, start=2)
    ]


SETTINGS = Table(
    "",
    ["best by error rate (lowest): additive", "Intervals from two seeds are wide"],
    ["scoring", "n", "error rate", *(f"a metric with a long name {place}" for place in range(9))],
    [[name, "2", *["0.02913 ± 0.00100"] * 10] for name in ("additive", "dot")],
    1,
    [0],
    "A note.",
)
LINES = """(one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return new Set(Array.from(range.getClientRects(), ({top}) => Math.round(top))).size;
}"""
CHARTS = "[...document.querySelectorAll('.chart')]"


def _open(browser: Browser, path: Path, page: str, maps: int) -> str:
    """Open a page; returns its text, without what is folded."""
    path.write_text(page, encoding="utf-8")
    browser.open(path.as_uri())
    browser.wait(f"document.querySelectorAll('.sample canvas').length === {maps}")
    text: str = browser.run("document.body.innerText")
    return text


def _resize(browser: Browser, width: int) -> None:
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)


def _check_widths(browser: Browser) -> None:
    """No part of the page is wider than the window, unless it lies in a box that scrolls."""
    for width in (390, 1000):
        _resize(browser, width)
        assert browser.run("document.documentElement.scrollWidth") <= width
        canvases = "[...document.querySelectorAll('.sample canvas')]"
        ends = f"{canvases}.map((one) => one.getBoundingClientRect().right)"
        assert max(browser.run(ends)) <= width - 14
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert not browser.complaints()


@pytest.mark.long
def test_the_report_of_a_run_tells_what_matters_first(browser: Browser, tmp_path: Path) -> None:
    heading = Heading("logs/run", "2026-01-31 12:00", "python train.py scoring=dot")
    text = _open(browser, tmp_path / "report.html", make_page(heading, _runs(["dot"])), 2)
    assert text.startswith("logs/run\n\n2026-01-31 12:00\n\npython train.py scoring=dot\n")
    assert [text.count(word) for word in ("Most common", "A → B", "2 more", "decoder, at")] == [1] * 4
    assert "Comparison" not in text and "hit rate" not in text  # the latter is folded
    assert browser.run(f"{CHARTS}.map((one) => one.querySelectorAll('path').length)") == [2, 1, 2, 2]
    titles = browser.run(f"{CHARTS}.map((one) => one.querySelector('figcaption span').textContent)")
    assert titles == ["loss", "learning rate", "decoder", "mass"]
    assert min(browser.run(f"{CHARTS}.map((one) => one.querySelectorAll('.rule').length)")) >= 3
    card = browser.run("document.querySelector('.card').innerText").split("\n")
    assert card == ["error rate", "0.2500", "95%: 0.1000 to 0.9000"]
    _check_widths(browser)


@pytest.mark.long
def test_only_outputs_that_can_be_right_are_marked_as_wrong(browser: Browser, tmp_path: Path) -> None:
    record = encode(AttentionRecord(WEIGHTS, list("wxyz"), list("abcde"), module="attention"))
    records = {f"example {place}/attention": {7: record} for place in (1, 2)}
    marks = "[...document.querySelectorAll('.sample .outputs b')].map((one) => one.className)"
    numbers = Run("nw", records=records, samples=[("x = 1", "y = 2.1", "y = 2.2"), ("", "continued", "")])
    text = _open(browser, tmp_path / "numbers.html", make_page(Heading("title"), [numbers]), 4)
    assert "Attention at the last step: a row" in text
    assert browser.run(marks) == ["", ""]
    assert browser.run("[...document.querySelectorAll('.sample h3')].map((one) => one.textContent)") == [
        "x = 1",
        "example 2",  # its input is empty
    ]
    words = replace(numbers, samples=[("sh", "SH", "SH"), ("x", "Y", "Z")], worst=[("x", "Y", "Z", "1")])
    _open(browser, tmp_path / "words.html", make_page(Heading("title"), [words]), 4)
    assert browser.run(marks) == ["right", "wrong"]


def test_long_keys_leave_room_for_the_weights_of_a_short_output(browser: Browser, tmp_path: Path) -> None:
    record = AttentionRecord(
        np.full((1, 1, 2), 0.5), ["e"], ["Donaudampfschifffahrt", "e"], module="attention"
    )
    run = Run("long", records={"example 1/attention": {7: encode(record)}}, samples=[("a", "b", "c")])
    _open(browser, tmp_path / "report.html", make_page(Heading("title"), [run]), 1)
    assert browser.run("document.querySelector('.sample canvas').clientWidth") > 39 + 2 * 20  # two cells


@pytest.mark.long
def test_the_report_of_a_sweep_begins_with_its_verdict(browser: Browser, tmp_path: Path) -> None:
    compared = Comparison([SETTINGS], ["2 of 4 runs failed: why"], ["leaderboard.md", "leaderboard.png"])
    page = make_page(Heading("sweep_2026"), _runs(["additive", "dot"]), compared)
    text = _open(browser, tmp_path / "report.html", page, 4)
    assert text.index(SETTINGS.summaries[0]) < text.index("0.02913") < text.index("0.2500")
    assert "2 of 4 runs failed: why" in text
    links = "[...document.querySelectorAll('.files a')].map((one) => one.getAttribute('href'))"
    assert browser.run(links) == ["leaderboard.md", "leaderboard.png"]
    assert browser.run("document.querySelector('.settings .best').innerText").startswith("additive")
    head = browser.run("[...document.querySelectorAll('.runs thead th')].map((one) => one.innerText)")
    assert head == ["run", "scoring", "error rate"]
    # errors are folded, with the commonest of each run told
    assert "Most common" not in text and text.count("most often A → B, 6 times") == 2
    assert browser.run(f"{CHARTS}.map((one) => one.querySelectorAll('path').length)") == [4, 2, 4, 4]
    _check_widths(browser)
    _resize(browser, 390)
    boxes = "[...document.querySelectorAll('.settings span, .runs tbody th span')]"
    assert set(browser.run(f"{boxes}.map({LINES})")) <= {0, 1}  # no name or number is broken; p may be empty
    scrolls = "(({scrollWidth, clientWidth}) => scrollWidth > clientWidth)"
    assert browser.run(f"{scrolls}(document.querySelector('.scroll'))")
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_seeds_of_a_setting_share_a_colour_and_a_name(browser: Browser, tmp_path: Path) -> None:
    names = [(score, seed) for score in ("additive", "dot") for seed in (1, 2)]
    runs = [
        replace(run, records={}, samples=(), setting=f"scoring={score}")
        for run, (score, _) in zip(_runs([f"{one} seed={seed}" for one, seed in names]), names, strict=True)
    ]
    cells = ["additive", "2", "0.1463 ± 0.0045", "0.1054 to 0.1872", "+0.0080 (-0.0746 to 0.0885)", "9 ± 1"]
    header = ["scoring", "n", "token error rate", "95% interval", "against the best", "peak memory (MB)"]
    table = Table("", ["best"], header, [cells], 1, [0], "", below=3)
    page = make_page(Heading("title"), runs, Comparison([table]))
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.chart') !== null")
    lines = f"[...{CHARTS}[0].querySelectorAll('path')].map((one) => one.getAttribute('class'))"
    assert [one for one in browser.run(lines) if "dashed" not in one] == [
        "run run-0", "run run-0 again", "run run-1", "run run-1 again"
    ]  # fmt: skip
    shown = browser.run(f"[...{CHARTS}[0].querySelectorAll('.key span')].map((one) => one.innerText)")
    assert sorted(shown) == [
        "scoring=additive 0.6100 0.6100", "scoring=additive train 1.000 1.000",
        "scoring=dot 0.6100 0.6100", "scoring=dot train 1.000 1.000",
    ]  # fmt: skip
    assert "step" in browser.run(f"{CHARTS}[0].querySelector('svg').textContent")
    columns = "[...document.querySelectorAll('.settings tbody td')].map((one) => one.innerText.split('\\n'))"
    assert browser.run(columns) == [
        ["additive"], ["2"], ["0.1463 ± 0.0045", "0.1054 to 0.1872"],
        ["+0.0080", "-0.0746 to 0.0885"], ["9", "± 1"],
    ]  # fmt: skip
    last = "document.querySelector('.settings th.value:last-child').innerText"
    assert browser.run(last) == "peak memory\n(MB)"


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1400])
def test_the_map_of_a_sample_takes_the_width_of_its_card(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    record = encode(AttentionRecord(np.full((1, 6, 40), 1 / 40, np.float32), list("abcdef"), ["m"] * 40))
    runs = [Run("run", records={"example 1/decoder": {0: record}, "example 2/decoder": {0: record}})]
    _resize(browser, width)
    _open(browser, tmp_path / "report.html", make_page(Heading("title"), runs), 2)
    shares = "(one) => one.clientWidth / one.closest('.outputs').clientWidth"
    found = browser.run(f"[...document.querySelectorAll('.sample canvas')].map({shares})")
    assert all(0.85 < share <= 1 for share in found)
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
def test_short_labels_are_upright_unless_most_are_long(browser: Browser, tmp_path: Path) -> None:
    few, many = [*"abcdefghijklmnopqrstuvwxyzABCDEF", "</s>"], ["2", *["3.625"] * 27, *["4.5"] * 12]
    for labels, turned in ((few, {"&lt;/s&gt;"}), (many, {"3.625", "4.5"})):
        weights = np.full((1, 2, len(labels)), 1 / len(labels), np.float32)
        record = encode(AttentionRecord(weights, ["1", "2"], labels))
        page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record}})])
        _open(browser, tmp_path / "report.html", page, 1)
        texts = re.findall(r"<text([^>]*)>([^<]*)</text>", browser.run(SAVED_SVG))
        assert {text for style, text in texts if "rotate" in style} == {*turned, "query"}
        assert {text for style, text in texts if "rotate" not in style} >= {*labels} - {"</s>", *turned}


def test_the_report_opens_on_an_example_of_middle_length(browser: Browser, tmp_path: Path) -> None:
    records = {}
    for place, size in enumerate((2, 9, 5, 4, 7), start=1):
        weights = np.full((1, size, size), 1 / size, np.float32)
        labels = [str(one) for one in range(size)]
        records[f"example {place}/decoder"] = {0: encode(AttentionRecord(weights, labels, labels))}
    page = make_page(Heading("title"), [Run("run", records=records)])
    _open(browser, tmp_path / "report.html", page, 5)
    assert browser.run("document.querySelector('select[aria-label=example]').value") == "example 5"


def test_numbers_are_written_as_the_console_writes_them(browser: Browser, tmp_path: Path) -> None:
    values = [0.02913, 0.5, 1.0, 1.5, 2.0, 0.0, 3e-5, 6.659e-05, 999.96, 1234.6, 1093775.0, -0.25, 1e-4]
    curves = {f"validation/{place:02}": [(0, 1.0), (1, value)] for place, value in enumerate(values)}
    runs = [Run("run", curves=curves)]
    (tmp_path / "report.html").write_text(make_page(Heading("title"), runs), encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.chart') !== null")
    shown = browser.run(f"{CHARTS}.map((one) => one.querySelector('.key b').textContent)")
    assert shown == [number(value) for value in values]


@pytest.mark.slow
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
    path.write_text(make_page(Heading("title"), [run]), encoding="utf-8")
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


def _key(browser: Browser, key: str, code: int) -> None:
    """Press a key where the focus is."""
    pressed = {"key": key, "windowsVirtualKeyCode": code, **({"text": key} if len(key) == 1 else {})}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)


@pytest.mark.slow
def test_keys_scroll_the_report_until_the_viewer_is_pressed(browser: Browser, tmp_path: Path) -> None:
    address = (tmp_path / "report.html").as_uri()
    _resize(browser, 1000)
    _open(browser, tmp_path / "report.html", make_page(Heading("logs/run"), _runs(["dot"])), 2)
    _key(browser, " ", 32)
    browser.wait("scrollY > 0")
    for part, said in ((".sample h3", None), (".al-readout", "w (1)"), (".maps canvas", "w (1)")):
        browser.open(address)
        place = f"document.querySelector('{part}')"
        browser.run(f"{place}.scrollIntoView({{block: 'center'}})")
        x, y = browser.run(f"(({{x, y}}) => [x + 5, y + 5])({place}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        browser.run("new Promise((done) => setTimeout(done, 100))")  # a link changes the view a moment later
        _key(browser, "ArrowDown", 40)
        assert browser.run("document.querySelector('[data-fact=query] b')?.textContent") == said, part
    browser.call("Emulation.clearDeviceMetricsOverride")
