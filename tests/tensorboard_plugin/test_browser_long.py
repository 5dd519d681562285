"""Long inputs in the tab: tiles are drawn as what they stand for, and one can move around in them."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from attention_log import Log
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.tensorboard_plugin import add_attention, codec, tiling

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

SIZE = 96
WORDS = ["cat", "dog", "##s", "<b>", "Ġsat"]
LABELS = [WORDS[at % 5] if at else "start" for at in range(SIZE)]


def _weights(seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(2, SIZE, SIZE)) * 3
    scores[:, np.triu_indices(SIZE, 1)[0], np.triu_indices(SIZE, 1)[1]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


TOKENS = 900  # a running text, most of it out of view
WEIGHTS = {"a": _weights(0), "b": _weights(1)}


@pytest.fixture(scope="module")
def address(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    logs = tmp_path_factory.mktemp("logs")
    mask = np.tril(np.ones((SIZE, SIZE), bool))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "WHOLE", 100)  # as if it were long
        patch.setattr(tiling, "_ACROSS", 12)
        patch.setattr(tiling, "_FEWEST", 6)
        patch.setattr(tiling, "_MOST", 6)
        for run, weights in WEIGHTS.items():
            log = Log(logs / run)
            add_attention(log, "example 1/layer", weights, LABELS, LABELS, 0, mask=mask)
            log.close()
    log = Log(logs / "text")
    words = [f"word{at}" for at in range(TOKENS)]
    ahead = np.tile(np.eye(TOKENS, k=TOKENS - 1, dtype=np.float32)[0], (1, TOKENS, 1))  # all to the last one
    add_attention(log, "example 1/layer", ahead, words, words, 0)
    log.close()
    log = Log(logs / "whole")
    add_attention(log, "example 1/layer", WEIGHTS["a"], LABELS, LABELS, 0, mask=mask)
    log.close()
    with serving(logs, tmp_path_factory.mktemp("server") / "output") as server:
        yield f"http://localhost:{server.port}{server.prefix}"


@pytest.fixture
def show(browser: Browser, address: str) -> Callable[..., Browser]:
    def opened(view: str) -> Browser:
        frame = f"{address}data/plugin_entry.html?name=attention_lab"
        browser.open(f"{frame}#attention_lab&p.attention_lab.view={quote(view)}")
        return browser

    return opened


RECORD = """Promise.all(['tiles', 'source'].map((name) =>
  import(new URL(`static/viewer/${name}.js`, document.baseURI))))
  .then(async ([{makeRecord}, {serverSource}]) => {
    const ask = (run) => serverSource(document.baseURI).record(run, 'example 1/layer', 0);
    const one = makeRecord(await ask('a'));
    const all = {rows: [0, one.queries], columns: [0, one.keys]};
    const plain = (codes) => [...codes].map((code) => code === 65535 ? -1 : one.kind.value(code));
    return (%s);
  })"""


def _ask(browser: Browser, script: str) -> Any:
    return browser.run(RECORD % script)


def test_the_page_reads_tiles_as_they_were_written(show: Any) -> None:
    browser, weights = show("run=a"), WEIGHTS["a"][1]
    cells = "Array.from({length: 96}, (_, q) => Array.from({length: 96}, (_, k) => one.at(1, q, k)))"
    found = np.array(_ask(browser, cells), float)  # None becomes NaN
    assert np.array_equal(np.isnan(found), np.triu(np.ones((SIZE, SIZE), bool), 1))
    exact = np.array(_ask(browser, cells.replace("one.at", "one.exact")), bool)
    largest = np.sort(weights, axis=1)[:, -6:].min(1, keepdims=True)
    assert np.array_equal(exact, (weights >= largest) & (weights > 0))
    assert np.allclose(found[exact], weights[exact], rtol=3e-3, atol=1e-7)
    # what is not known by itself has the mean of its tile's others, so that sums are right
    sums = np.nan_to_num(found).reshape(12, 8, 12, 8).sum((1, 3))
    assert np.allclose(sums, weights.reshape(12, 8, 12, 8).sum((1, 3)), rtol=1e-2, atol=1e-4)
    row, facts = _ask(browser, "[one.row(1, 40), one.facts(1, 40)]")
    assert facts["sum"] == pytest.approx(1, abs=1e-3) and facts["attended"] == 41
    entropy = -(weights[40, :41] * np.log(weights[40, :41])).sum()
    assert facts["entropy"] == pytest.approx(entropy, abs=1e-3)
    assert [one for one in row if one is not None] == pytest.approx(found[40, :41].tolist())


def test_a_map_of_any_detail_is_of_the_weights(show: Any) -> None:
    browser = show("run=a")
    cells = np.array(_ask(browser, "plain(one.window(0, all, 1, 1, false))")).reshape(SIZE, SIZE)
    for side in (1, 2, 4, 8, 16, 32):
        maps = [f"plain(one.window(0, all, {side}, {side}, {mean}))" for mean in ("true", "false")]
        mean, largest = np.array(_ask(browser, f"[{', '.join(maps)}]")).reshape(2, SIZE // side, -1)
        _check_detail(side, mean, largest, cells)


def _check_detail(side: int, mean: np.ndarray, largest: np.ndarray, cells: np.ndarray) -> None:
    """Compare a map of blocks with the weights, and with the map of single cells."""
    weights = WEIGHTS["a"][0]
    shape = (SIZE // side, side, SIZE // side, side)
    count = np.tril(np.ones((SIZE, SIZE))).reshape(shape).sum((1, 3))
    seen = count > 0
    assert np.array_equal(mean >= 0, seen) and np.array_equal(largest >= 0, seen)

    expected = weights.reshape(shape).max((1, 3))
    sixth = np.sort(weights, axis=1)[:, -6:].min(1, keepdims=True)
    known = np.where(weights >= sixth, weights, 0).reshape(shape).max((1, 3))
    large = seen & (expected > 0.01) & ((known == expected) | (side >= 8))  # in tiles all are known
    assert large.any() and np.allclose(largest[large], expected[large], rtol=1e-2)

    if side >= 8:
        expected = weights.reshape(shape).sum((1, 3)) / np.maximum(count, 1)
        assert np.allclose(mean[seen], expected[seen], rtol=1e-2)
    else:
        expected = np.maximum(cells, 0).reshape(shape).sum((1, 3)) / np.maximum(count, 1)
        assert np.allclose(mean[seen], expected[seen], rtol=2e-2, atol=1e-5)


def test_a_part_of_a_map_is_a_part_of_the_whole(show: Any) -> None:
    browser = show("run=a")
    script = "plain(one.window(0, {rows: [%d, %d], columns: [%d, %d]}, 2, 2, false))"
    whole = np.array(_ask(browser, script % (0, 96, 0, 96))).reshape(48, 48)
    part = np.array(_ask(browser, script % (32, 64, 16, 80))).reshape(16, 32)
    assert np.allclose(part, whole[16:32, 8:40])


SHOWN = "document.querySelector('.al-shown').textContent"
FACT = "(name) => document.querySelector(`[data-fact=${name}] b`)?.textContent"


@pytest.mark.parametrize("run", ["a", "whole"])
def test_one_zooms_in_as_far_as_cells_and_back(show: Any, run: str) -> None:
    browser = show(f"run={run}&query=50&key=40")
    assert browser.run(SHOWN) == "all queries and keys"
    pictures = {browser.run("document.querySelector('.al-base').toDataURL()")}
    for shown in ("queries 27–74 · keys 17–64", "queries 39–62 · keys 29–52", "queries 45–56 · keys 35–46"):
        browser.press("+")
        assert browser.run(SHOWN) == shown
        pictures.add(browser.run("document.querySelector('.al-base').toDataURL()"))
    assert len(pictures) == 4
    browser.press("0")
    assert browser.run(SHOWN) == "all queries and keys"
    assert browser.run("document.querySelector('.al-base').toDataURL()") in pictures


def test_each_change_is_drawn_once(show: Any) -> None:
    browser = show("run=a")
    browser.run("""(() => {
      window.drawn = 0;
      const whole = CanvasRenderingContext2D.prototype.drawImage;
      CanvasRenderingContext2D.prototype.drawImage = function (...given) {
        window.drawn += this.canvas.classList.contains('al-base');
        return whole.apply(this, given);
      };
    })()""")
    for key in "++]0":
        browser.press(key)
        browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert browser.run("window.drawn") == 4


def test_a_running_text_is_shaded_where_it_comes_into_view(show: Any) -> None:
    browser = show("run=text")
    last = "document.querySelector('.al-running p:last-child span:last-child')"
    browser.wait(f"!{last}.checkVisibility({{contentVisibilityAuto: true}})")
    browser.press("ArrowDown")
    assert browser.run(f"{last}.style.background") == ""  # of no use yet
    browser.run(f"{last}.scrollIntoView()")
    browser.wait(f"{last}.style.background !== ''")
    browser.press("Escape")
    browser.wait(f"{last}.style.background === ''")
    assert not browser.complaints()


@pytest.mark.parametrize("width", [1500, 390])
def test_the_chosen_token_and_what_it_attends_to_are_brought_into_view(show: Any, width: int) -> None:
    seen = """[...document.querySelectorAll('.al-running')].map((list, number) => {
      const token = list.querySelectorAll('span')[[899, 600][number]];
      const [frame, box] = [list, token].map((one) => one.getBoundingClientRect());
      return box.top >= frame.top && box.bottom <= frame.bottom;
    })"""
    browser = show("run=text")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    show("run=text&query=600")
    browser.run("document.querySelector('.al-text').scrollIntoView()")
    browser.wait(f"{seen}.every(Boolean)")
    browser.press("Escape")
    browser.run("document.querySelectorAll('.al-running').forEach((list) => { list.scrollTop = 0; })")
    browser.wait(f"!{seen}.some(Boolean)")
    browser.press("]")  # nothing is chosen: nothing moves
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert browser.run(f"!{seen}.some(Boolean)")
    browser.call("Emulation.clearDeviceMetricsOverride")


def test_the_wheel_zooms_about_the_pointer_and_dragging_moves(show: Any) -> None:
    browser = show("run=a")
    browser.run("""(() => {
      const over = document.querySelector('.al-over'), box = over.getBoundingClientRect();
      const at = {clientX: box.left + 300, clientY: box.top + 200, bubbles: true, cancelable: true};
      over.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, ...at}));
    })()""")
    browser.wait(f"{SHOWN} !== 'all queries and keys'")
    before = browser.run(SHOWN)
    for kind, x in (("mousePressed", 500), ("mouseMoved", 460), ("mouseMoved", 400), ("mouseReleased", 400)):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=500, button="left", clickCount=1)
    browser.wait(f"{SHOWN} !== '{before}'")
    assert browser.run(f"({FACT})('query')") is None  # that was no click
    browser.wait("decodeURIComponent(location.hash).includes('rows=')")


def test_a_cell_of_several_weights_is_read_at_its_largest(show: Any) -> None:
    browser = show("run=text")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=900, height=500, deviceScaleFactor=1, mobile=False
    )
    show("run=text&scale=linear")
    found = browser.run(f"""(async () => {{
      const over = document.querySelector('.al-over'), box = over.getBoundingClientRect();
      for (let x = box.width - 90; x > 0; x -= 3) {{
        const at = {{clientX: box.left + x, clientY: box.top + 200, bubbles: true}};
        over.dispatchEvent(new PointerEvent('pointermove', at));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        if (({FACT})('key')) return ['key', 'weight'].map({FACT});
      }}
    }})()""")
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert found == ["word899 (900)", "1.0000"]  # one of the three keys that the last column stands for


def test_tokens_are_found_and_chosen(show: Any) -> None:
    browser = show("run=a&rows=40-60&columns=0-96")
    browser.press("/")
    seek = """(text, key, shift = false) => {
      const search = document.querySelector('.al-search');
      search.value = text;
      search.dispatchEvent(new Event('input'));
      if (key) search.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey: shift, bubbles: true}));
    }"""
    assert browser.run("document.activeElement.className") == "al-search"
    browser.run(f"({seek})('CAT')")
    browser.wait(f"({FACT})('query') === 'cat (6)'")
    assert browser.run("document.querySelector('.al-found').textContent") == "query 1 of 19"
    assert browser.run(SHOWN) == "queries 1–20 · keys 1–96"  # brought into view
    browser.run(f"({seek})('cat', 'Enter')")
    browser.wait(f"({FACT})('query') === 'cat (11)'")
    browser.run(f"({seek})('cat', 'Enter', true)")
    browser.wait(f"({FACT})('key') === 'cat (6)'")
    assert browser.run("document.querySelectorAll('.al-has').length") == 2 * 19
    browser.run(f"({seek})('zebra')")
    assert browser.run("document.querySelector('.al-found').textContent") == "not found"
    assert not browser.complaints()


def test_what_is_only_known_of_several_weights_is_said_to_be_about(show: Any) -> None:
    exact = int(np.argmax(WEIGHTS["a"][0, 50]))
    least = int(np.argmin(WEIGHTS["a"][0, 50, :51]))
    browser = show(f"run=a&query=50&key={exact}")
    assert browser.run(f"({FACT})('weight')") == f"{WEIGHTS['a'][0, 50, exact]:.4f}"
    browser = show(f"run=a&query=50&key={least}")
    assert browser.run(f"({FACT})('weight')").startswith("about ")
    said = browser.run("document.querySelector('.al-message').textContent")
    assert "the 6 largest weights of each query" in said


def test_two_long_runs_are_compared(show: Any) -> None:
    both = [np.argsort(-weights[0], axis=1)[:, :6] for weights in WEIGHTS.values()]
    query, key = next(
        (query, key) for query in range(50, SIZE) for key in set(both[0][query]) & set(both[1][query])
    )
    browser = show(f"run=a&with=b&side=difference&query={query}&key={key}")
    said = float(browser.run(f"({FACT})('difference')").replace("−", "-"))
    difference = WEIGHTS["b"][0, query, key] - WEIGHTS["a"][0, query, key]
    assert said == pytest.approx(difference, abs=2e-4)
    for key in ("+", "t", "v", "c"):
        browser.press(key)
    assert not browser.complaints()
