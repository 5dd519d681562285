"""What the tab shows before anything is chosen, how runs are compared, and that it fits the window."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from attention_log import Log
from chromium import DRAWN, NEEDS_CHROMIUM, Browser, names_of

from attention_lab.tensorboard_plugin import add_attention

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

RNG = np.random.default_rng(0)
WORDS = {"sh": "S h", "attention": "A t e n S n", "encyclopedia": "e n s y k l o p e d i a", "of": "o v"}
LONG = "g2p/seq2seq_cmudict_scoring=additive,{},model.hidden=256,seed=1_2026-11-22_07-0{}/tensorboard"
RUNS = {"a": LONG.format("window=null", 1), "b": LONG.format("window=local_p", 2)}


def _weights(queries: int, keys: int, heads: int = 1) -> np.ndarray:
    return RNG.dirichlet(np.ones(keys), (heads, queries)).astype(np.float32)


def _write(folder: Path) -> None:
    for run, name in RUNS.items():
        log = Log(folder / name)
        for number, (word, sounds) in enumerate(WORDS.items(), start=1):
            queries = [*sounds.split(), "end"]
            if run == "b" and word == "attention":
                queries[4:] = ["N", "end"]  # the first four are as in run a
            weights = _weights(len(queries), len(word))
            add_attention(log, f"example {number}/decoder", weights, queries, list(word), 0, input=word)
        other = [f"{run}{number}" for number in range(3)]
        add_attention(log, "example 9/decoder", _weights(3, 3), other, other, 0)
        log.close()
    log = Log(folder / "digits")
    rows = ["··█▓····", "··██····", "···█····", "···█░···"]
    for layer in range(1, 7):
        weights = _weights(4, 4, heads=8)
        add_attention(
            log, f"example 1/layer {layer}", weights, rows, rows, 0, input=" ".join(rows), output="1"
        )
    texts = {"input": "سلام", "output": "s a", "expected": "s a l a m"}
    add_attention(log, "example 2/decoder", _weights(2, 5), ["s", "a"], [*"سلام", "</s>"], 0, **texts)
    sentence = "a sentence of sixty words " * 12
    texts = {"input": sentence, "output": sentence[3:], "expected": sentence[:-3]}
    add_attention(log, "example 3/decoder", _weights(2, 2), ["s", "a"], ["a", "s"], 0, **texts)
    log.close()


@pytest.fixture(scope="module")
def address(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    logs = tmp_path_factory.mktemp("logs")
    _write(logs)
    with serving(logs, tmp_path_factory.mktemp("server") / "output") as server:
        yield f"http://localhost:{server.port}{server.prefix}"


@pytest.fixture
def show(browser: Browser, address: str) -> Iterator[Callable[..., Browser]]:
    """Open the tab's own page on a view, in a window of some width."""

    def opened(view: str = "", width: int = 1400, height: int = 900) -> Browser:
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        frame = f"{address}data/plugin_entry.html?name=attention_lab"
        browser.open(f"{frame}#attention_lab&p.attention_lab.view={quote(view)}")
        return browser

    yield opened
    browser.call("Emulation.clearDeviceMetricsOverride")


def _view(**parts: str) -> str:
    return "&".join(f"{name}={quote(RUNS.get(value, value), safe='')}" for name, value in parts.items())


IS_TITLE = "(text) => /^(A|B|B − A) · head/.test(text)"
PANELS = f"{DRAWN}.then((drawn) => drawn.filter({IS_TITLE}).map((text) => text.split(' · ')[0]))"


def test_the_tab_has_a_heading_for_screen_readers(show: Callable[..., Browser]) -> None:
    assert names_of(show(), "heading")[:2] == ["Attention", "Heads"]


def test_the_first_example_shown_is_of_middle_length(show: Any) -> None:
    browser = show(_view(run="a"))
    options = "[...document.querySelectorAll('[aria-label=example] option')].map((one) => one.textContent)"
    assert browser.run(options) == ["1 · sh", "2 · attention", "3 · encyclopedia", "4 · of", "example 9"]
    chosen = browser.run("document.querySelector('[aria-label=example]').value")
    assert chosen == "example 2"  # 3 x 3, 4 x 2, 7 x 9 and 13 x 12


def test_the_help_page_begins_at_its_top(show: Any) -> None:
    browser = show(_view(run="a"), height=500)
    opened = "document.querySelector('[aria-label=help]')"
    browser.press("?")
    assert browser.run(f"{opened}.open && [{opened}.scrollTop, {opened}.scrollHeight > 500]") == [0, True]


def test_names_of_runs_keep_what_tells_them_apart(show: Any) -> None:
    browser = show(_view(run="a"))
    options = "[...document.querySelectorAll('[aria-label=\"run A\"] option')]"
    assert browser.run(f"{options}.map((one) => [one.textContent, one.title])") == [
        ["digits", "digits"],
        ["g2p/…scoring=additive,window=local_p,…07-02", RUNS["b"]],
        ["g2p/…scoring=additive,window=null,…07-01", RUNS["a"]],
    ]


def test_names_that_would_be_the_same_stay_whole(show: Any) -> None:
    names = ["a" * 60 + end for end in ("x", "y", "")] + ["<b>\u202e", "a/b/tensorboard", "a/b"]
    module = "import(new URL('static/viewer/run_names.js', document.baseURI))"
    browser = show(_view(run="a"))
    found = browser.run(f"{module}.then(({{distinct}}) => [...distinct({names!r})])")
    assert [name for name, _ in found] == names
    assert len({shown for _, shown in found}) >= len(names) - 1  # a/b and a/b/tensorboard are one folder


@pytest.mark.slow
def test_outputs_of_different_lengths_are_compared_on_their_common_prefix(show: Any) -> None:
    browser = show(_view(run="a", **{"with": "b"}, example="example 2", side="difference"))
    assert browser.run(PANELS) == ["B − A"]
    said = browser.run("document.querySelector('.al-message').textContent")
    assert said == "A is 7 × 9 and B is 6 × 9: B − A covers the first 4 queries, which are the same in both"
    browser.press("c")  # all three
    assert browser.run(PANELS) == ["A", "B", "B − A"]


@pytest.mark.slow
@pytest.mark.parametrize("view", ["map", "lines"])
def test_what_has_nothing_in_common_is_shown_side_by_side(show: Any, view: str) -> None:
    browser = show(_view(run="a", **{"with": "b"}, example="example 9", side="difference", view=view))
    assert browser.run(PANELS) == ["A", "B"]
    said = browser.run("document.querySelector('.al-message').textContent")
    assert "no difference can be taken, so both are shown" in said


def test_the_readout_of_a_key_says_what_it_receives(show: Any) -> None:
    browser = show(_view(run="a", example="example 2", view="lines", key="3"))
    fact = "(one) => [one.dataset.fact, one.querySelector('b').textContent]"
    said = dict(browser.run(f"[...document.querySelectorAll('[data-fact]')].map({fact})"))
    assert said["key"] == "e (4)" and "query" not in said
    assert said["received"].endswith(" of 7 queries") and 0 < float(said["received"].split()[0]) < 7
    assert 0 < float(said["most"].rsplit(" ", 1)[1]) <= 1


def test_an_arabic_input_stands_before_its_output(show: Any) -> None:
    browser = show(_view(run="digits", example="example 2"))
    edges = (
        "[...document.querySelector('.al-example').children].map((one) => one.getBoundingClientRect().left)"
    )
    start, end, *_ = browser.run(edges)
    assert start < end  # where the arrow points, which is not turned round in text written from the right


def test_a_wrong_output_stands_beside_what_was_expected(show: Any) -> None:
    browser = show(_view(run="digits", example="example 2"))
    said = "document.querySelector('.al-example').textContent"
    assert browser.run(said).endswith("s a, expected s a l a m")
    browser = show(_view(run="digits", example="example 1"))
    assert browser.run(said) == "1"


def test_the_expected_output_of_a_long_sentence_is_seen(show: Callable[..., Browser]) -> None:
    """It was below the third line of a box that scrolls."""
    browser = show("run=digits&example=example 3")
    box = "document.querySelector('.al-example')"
    assert ", expected a sentence" in browser.run(f"{box}.textContent")
    assert browser.run(f"{box}.scrollHeight <= {box}.clientHeight")


def test_a_latin_symbol_among_arabic_keys_is_not_turned_round(show: Any) -> None:
    browser = show(_view(run="digits", example="example 2"))
    lefts = """(() => {
      const token = [...document.querySelectorAll('.al-token')].find((one) => one.textContent === '</s>');
      return [0, 1, 2, 3].map((at) => {
        const range = document.createRange();
        range.setStart(token.firstChild, at);
        range.setEnd(token.firstChild, at + 1);
        return range.getBoundingClientRect().left;
      });
    })()"""
    found = browser.run(lefts)
    assert found == sorted(found)


@pytest.mark.slow
def test_rows_of_pixels_are_drawn_and_not_written(show: Any) -> None:
    browser = show(_view(run="digits", query="1"))
    assert browser.run("document.querySelectorAll('.al-pixels i').length") == 2 * 4 * 8
    for view in ("map", "lines"):
        browser.run(f"document.querySelector('[data-value={view}]').click()")
        assert not [text for text in browser.run(DRAWN) if set(text) & set("░▒▓█")], view
    assert "░" not in browser.run("document.querySelector('.al-viewer').innerText")
    assert not browser.complaints()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [1400, 1000, 390])
@pytest.mark.parametrize("run", ["a", "digits"])
def test_nothing_is_wider_than_the_window(show: Any, width: int, run: str) -> None:
    browser = show(_view(run=run, **({"with": "b"} if run == "a" else {})), width)
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.run(
        "document.querySelector('.al-figure').scrollWidth <= document.querySelector('.al-figure').clientWidth"
    )
    if width > 500:  # bars of controls have no ragged rows
        tools = "[...document.querySelector('.al-tools').children].filter((one) => one.offsetParent)"
        tops = f"{tools}.map((one) => Math.round(one.getBoundingClientRect().top))"
        assert len(set(browser.run(tops))) == 1


@pytest.mark.slow
def test_on_a_phone_the_map_has_the_width_and_its_colour_bar_lies_below(show: Any) -> None:
    placed = """(() => {
      const { drawImage, fillText } = CanvasRenderingContext2D.prototype, found = {};
      const mine = ({ canvas }) => canvas.classList.contains('al-base');
      CanvasRenderingContext2D.prototype.drawImage = function (image, x, y, width, height) {
        if (mine(this)) found.map = [width, y + height];
        drawImage.call(this, image, x, y, width, height);
      };
      CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
        if (mine(this) && text === 'weight') found.bar = [this.getTransform().e, this.getTransform().f];
        fillText.call(this, text, ...more);
      };
      document.querySelector('[data-value=fixed]').click();
      return new Promise((done) => setTimeout(() => done(found), 300));
    })()"""
    phone = show(_view(run="a", example="example 2"), width=390).run(placed)
    assert phone["map"][0] > 0.66 * 390 and phone["bar"][1] > phone["map"][1]
    desk = show(_view(run="a", example="example 2"), width=1400).run(placed)
    assert desk["bar"][0] > desk["map"][0] and desk["bar"][1] < desk["map"][1]


@pytest.mark.slow
def test_the_list_of_heads_takes_what_its_heads_need(show: Any) -> None:
    width = "document.querySelector('.al-heads').getBoundingClientRect().width"
    one, many = show(_view(run="a")).run(width), show(_view(run="digits")).run(width)
    assert one <= 160 < many


def test_the_heads_of_a_layer_stand_in_one_row_though_the_list_scrolls(show: Any) -> None:
    browser = show(_view(run="digits"), height=420)
    assert browser.run(
        "(({scrollHeight: all, clientHeight: seen}) => all > seen)(document.querySelector('.al-overview'))"
    )
    tops = "[...document.querySelectorAll('.al-module:first-child .al-tile')].map((one) => one.offsetTop)"
    assert len(set(browser.run(tops))) == 1
