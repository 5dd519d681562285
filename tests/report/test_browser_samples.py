"""The samples of the report in a real browser: each output with its own input and attention."""

from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, Ink, encode

pytestmark = NEEDS_CHROMIUM

CARDS = """[...document.querySelectorAll('.sample')].map((card) => [
  card.querySelector('h3').textContent,
  card.querySelector('.outputs b')?.textContent ?? '',
  new URLSearchParams(card.querySelector('.maps').hash.slice(1)).get('example'),
])"""


def _open(browser: Browser, path: Path, *runs: Run) -> None:
    path.write_text(make_page(Heading("title"), runs), encoding="utf-8")
    browser.open(path.as_uri())


def _record(text: str = "") -> tuple[bytes, bytes]:
    weights = np.full((1, 1, 2), 0.5, np.float32)
    return encode(AttentionRecord(weights, ["q"], ["a", "b"], input=text))


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
    damaged = "example 1: attention a record of shape 1 × 1 × 9 holds 2 weights"
    assert said == [damaged, "example 2: attention "] and not browser.complaints()


COUNT = """(() => {
  const read = Response.prototype.arrayBuffer;
  Object.assign(window, {most: 0, now: 0});
  Response.prototype.arrayBuffer = function () {
    window.most = Math.max(window.most, window.now += 1);
    return read.call(this).finally(() => (window.now -= 1));
  };
})()"""


@pytest.mark.long
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


OUTPUTS = """[...document.querySelectorAll('.samples')].map((group) => [
  group.previousElementSibling.matches('h3') ? group.previousElementSibling.textContent : '',
  ...[...group.querySelectorAll('.sample')].map((card) => [
    card.querySelector('h3').textContent,
    [...card.querySelectorAll('.called')].map((one) => one.textContent),
    [...card.querySelectorAll('.outputs b')].map((one) => one.textContent),
  ]),
])"""


def test_only_outputs_for_the_same_input_of_the_same_data_are_side_by_side(
    browser: Browser, tmp_path: Path
) -> None:
    samples = {
        "graph": ("karate", [("2 13", "Mr. Hi", "Mr. Hi")]),
        "dot": ("reverse", [("ab", "ba", "ba"), ("abc", "cb", "cba")]),
        "general": ("reverse", [("ab", "b", "ba"), ("xy", "yx", "yx")]),  # of another seed
        "changed": ("reverse", [("ab", "b", "ab")]),  # with other references
        "copy": ("copy", [("ab", "ab", "ba")]),
    }
    runs = [
        Run(
            name,
            records={f"example {place}/attention": {0: _record()} for place in range(1, len(own) + 1)},
            samples=own,
            data=f"data={data}",
        )
        for name, (data, own) in samples.items()
    ]
    _open(browser, tmp_path / "report.html", *runs)
    assert browser.run(OUTPUTS) == [
        ["data=karate", ["2 13", ["graph"], ["Mr. Hi"]]],
        [
            "data=reverse",
            ["ab", ["dot", "general"], ["ba", "b"]],
            ["ab", ["changed"], ["b"]],
            ["abc", ["dot"], ["cb"]],
            ["xy", ["general"], ["yx"]],
        ],
        ["data=copy", ["ab", ["copy"], ["ab"]]],
    ]
    assert not browser.complaints()


def test_records_without_samples_are_side_by_side_if_their_inputs_are_the_same(
    browser: Browser, tmp_path: Path
) -> None:
    runs = [
        Run(name, records={"hard case/attention": {0: _record(text)}})
        for name, text in (("a", "x"), ("b", "y"), ("c", "x"))
    ]
    _open(browser, tmp_path / "report.html", *runs)
    assert browser.run(OUTPUTS) == [["", ["hard case", ["a", "c"], []], ["hard case", ["b"], []]]]


def test_six_runs_of_each_data_set_have_samples(browser: Browser, tmp_path: Path) -> None:
    runs = [
        Run(f"{data}{n}", records={"example 1/attention": {0: _record()}} if n else {}, data=data)
        for data, count in (("a", 8), ("b", 3))
        for n in range(count)
    ]
    _open(browser, tmp_path / "report.html", *runs)
    shown = [len(called) for _, (_, called, _) in browser.run(OUTPUTS)]
    assert shown == [6, 2]
    said = "Only 6 runs of each data set are shown"
    assert browser.run(f"document.body.innerText.includes({said!r})")


TILES = """[...document.querySelectorAll('.sample figure')].map((figure) => {
  const canvas = figure.querySelector('canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, 2, 2).data;
  const sum = (at) => pixels[at] + pixels[at + 1] + pixels[at + 2];
  const lightness = [0, 4, 8, 12].map(sum);
  return [figure.querySelector('figcaption').textContent, lightness.indexOf(Math.min(...lightness))];
})"""
"""The caption of each tile, and the cell of its 2 x 2 image that is darkest."""
OVER_IMAGE = "document.body.innerText.includes('a column for each key, or the weights over the image.')"


@pytest.mark.parametrize(
    ("heads", "queries", "most", "tiles"),
    [
        (1, ["x", "y", "</s>"], [[0, 3, 2]], [["x", 0], ["y", 3], ["</s>", 2]]),
        (2, ["[CLS]", *"abcd"], [[1, 0, 0, 0, 0], [2, 3, 3, 3, 3]], [["head 1", 1], ["head 2", 2]]),
        (2, [*"abcd"], [[1, 1, 1, 0], [0, 3, 3, 2]], [["head 1", 1], ["head 2", 3]]),
        (2, ["pooled"], [[1], [2]], [["head 1", 1], ["head 2", 2]]),
        (2, [*"abcd", "[DET]"], [[1, 0, 0, 0, 0], [2, 3, 3, 3, 3]], [["head 1", 1], ["head 2", 2]]),
        (1, [*"axyz"], [[0, 3, 2, 1]], [["a", 0], ["x", 3], ["y", 2], ["z", 1]]),
    ],
    ids=[
        "symbols",
        "class token",
        "mean over the patches",
        "one query",
        "tokens after",
        "a symbol like a patch",
    ],
)
def test_attention_to_an_image_is_drawn_over_it(
    heads: int,
    queries: list[str],
    most: list[list[int]],
    tiles: list[list[object]],
    browser: Browser,
    tmp_path: Path,
) -> None:
    weights = np.full((heads, len(queries), 4), 0.1, np.float32)
    for head, keys in enumerate(most):
        weights[head, np.arange(len(keys)), keys] = 0.7
    ink = Ink(np.zeros((2, 2), np.uint8), 1, by_row=True)
    record = encode(AttentionRecord(weights, queries, list("abcd"), picture=ink))
    _open(browser, tmp_path / "report.html", Run("a", records={"example 1/attention": {0: record}}))
    browser.wait("document.querySelectorAll('.sample figure').length > 0")
    assert browser.run(TILES) == tiles
    assert browser.run(OVER_IMAGE)
    assert not browser.complaints()


def test_only_runs_on_images_are_said_to_have_weights_over_one(browser: Browser, tmp_path: Path) -> None:
    _open(browser, tmp_path / "report.html", Run("a", records={"example 1/attention": {0: _record()}}))
    browser.wait("document.querySelectorAll('.sample canvas').length === 1")
    assert not browser.run(OVER_IMAGE)
    assert browser.run("document.body.innerText.includes('a column for each key.')")


def test_four_tiles_are_beside_each_other_in_little_room(browser: Browser, tmp_path: Path) -> None:
    ink = Ink(np.zeros((4, 16), np.uint8), 4)
    record = encode(AttentionRecord(np.full((1, 4, 4), 0.25, np.float32), [*"wxyz"], [*"abcd"], picture=ink))
    _open(browser, tmp_path / "report.html", Run("a", records={"example 1/attention": {0: record}}))
    browser.wait("document.querySelectorAll('.sample figure').length === 4")
    for width in (390, 403, 1500):
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=True
        )
        browser.run("new Promise((resolve) => setTimeout(resolve, 300))")
        tops = "new Set([...document.querySelectorAll('.sample figure')].map((one) => one.offsetTop)).size"
        assert browser.run(tops) == 1, width
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_a_large_image_takes_no_more_pixels_than_are_shown(browser: Browser, tmp_path: Path) -> None:
    """Each of its tiles took all pixels of the image, which may be 12 million."""
    pixels = np.zeros((1200, 1200), np.uint8)
    pixels[:600, :600] = 255  # the ink of the first cell
    weights = np.full((1, 12, 4), 0.25, np.float32)
    record = encode(AttentionRecord(weights, [*"abcdefghijkl"], [*"1234"], picture=Ink(pixels, 600)))
    _open(browser, tmp_path / "report.html", Run("a", records={"example 1/attention": {0: record}}))
    browser.wait("document.querySelectorAll('.sample canvas').length === 12")
    sizes = "[...document.querySelectorAll('.sample canvas')].map((one) => [one.width, one.height])"
    assert all(132 <= side <= 300 for size in browser.run(sizes) for side in size)
    middles = """(() => {
      const canvas = document.querySelector('.sample canvas'), { width, height } = canvas;
      const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
      const at = (x, y) => pixels[4 * (Math.floor(y * height) * width + Math.floor(x * width))];
      return [at(0.25, 0.25), at(0.75, 0.25), at(0.25, 0.75), at(0.75, 0.75)];
    })()"""
    first, *others = browser.run(middles)
    assert len({*others}) == 1 and first != others[0]
    assert not browser.complaints()
