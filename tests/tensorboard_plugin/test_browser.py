"""The tab and the report in a real browser: Debian's Chromium, driven over its debugging port."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from attention_log import Log
from chromium import NEEDS_CHROMIUM, READY, Browser

from attention_lab.report.html_file import Comparison, Heading, Result, Run, Table, make_page
from attention_lab.tensorboard_plugin import add_attention
from attention_lab.tensorboard_plugin.event_files import read_log

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "\"'><img src=x onerror=\"document.title='owned'\">",
    "W" * 10_000,
    "👩‍👩‍👧‍👦",
    "\0\x01\x1b[31m",
    "\u202eשלום العالم\u2066",
    "",
]
RNG = np.random.default_rng(0)
STEPS = (0, 10, 20)
WEIGHTS = {run: RNG.dirichlet(np.ones(5), (3, 2, 4)).astype(np.float32) for run in ("a", "b")}
"""Of each run, at each step: 2 heads, 4 queries, 5 keys."""


def _write(folder: Path) -> None:
    ink = np.zeros((4, 8))
    for run, weights in WEIGHTS.items():
        log = Log(folder / run)
        for step, one in zip(STEPS, weights, strict=True):
            add_attention(
                log, "example 1/decoder", one, list("wxyz"), list("abcde"), step, gold=[0, 1, 2, -1]
            )
            add_attention(log, "example 1/encoder", one[:, :, ::-1], list("wxyz"), list("abcde"), step)
            mask = np.tril(np.ones((4, 4), bool))
            add_attention(log, "example 2/causal", one[:, :, :4], list("wxyz"), list("wxyz"), step, mask=mask)
        cells = np.full((1, 3, 8), 1 / 8)
        add_attention(log, "example 3/strip", cells, list("123"), list("abcdefgh"), 0, picture=(ink, 2))
        x = (np.array([0.0, 1.0, 2.0]), np.linspace(0, 2, 8))
        add_attention(log, "example 4/kernel", cells, list("123"), list("abcdefgh"), 0, x=x)
        log.close()
    size = len(HOSTILE)
    log = Log(folder / "hostile")
    texts = {"input": HOSTILE[2] + HOSTILE[1], "output": HOSTILE[2]}
    weights = RNG.dirichlet(np.ones(size), (1, size))
    tag = "<img src=x onerror=alert(1)>"  # TensorBoard's fast loader cannot give blobs of a tag with quotes
    add_attention(log, f"{tag}/{tag}", weights, HOSTILE, HOSTILE, 0, **texts)
    log.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    _write(folder)
    return folder


@pytest.fixture(scope="module")
def address(logs: Path, serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    output = tmp_path_factory.mktemp("server") / "output"
    with serving(logs, output, "--reload_interval", "1") as server:
        yield f"http://localhost:{server.port}{server.prefix}"


@pytest.fixture(scope="module")
def show(browser: Browser, address: str) -> Callable[..., Browser]:
    """Open the tab's own page on a view."""

    def opened(view: str = "run=a") -> Browser:
        view = view if "example=" in view or "hostile" in view else f"{view}&example=example 1"
        frame = f"{address}data/plugin_entry.html?name=attention_lab"
        browser.open(f"{frame}#attention_lab&p.attention_lab.view={quote(view)}")
        return browser

    return opened


HOVER = """(() => {
  const map = document.querySelector('.al-over'), box = map.getBoundingClientRect(), found = {};
  const fact = (name) => document.querySelector(`[data-fact=${name}] b`)?.textContent;
  for (let y = 2; y < box.height; y += 23) for (let x = 2; x < box.width; x += 23) {
    const at = {clientX: box.left + x, clientY: box.top + y, bubbles: true};
    map.dispatchEvent(new PointerEvent('pointermove', at));
    if (fact('weight')) found[`${fact('query')} ${fact('key')}`] = [fact('weight'), fact('difference')];
  }
  return found;
})()"""
"""Point everywhere; what the readout said of each cell."""

SAVED = """(async (button) => {
  const make = URL.createObjectURL, blobs = [];
  URL.createObjectURL = (blob) => { blobs.push(blob); return make(blob); };
  document.querySelector(`[data-act=${button}]`).click();
  while (!blobs.length) await new Promise((resolve) => setTimeout(resolve, 20));
  URL.createObjectURL = make;
  if (button === 'svg') return blobs[0].text();
  const image = await createImageBitmap(blobs[0]);
  return [blobs[0].type, image.width, image.height];
})"""
"""Press a button that saves; what it would have saved."""
PIXELS = "document.querySelector('.al-base').toDataURL()"
OWNED = """document.title === 'owned' || ['.al-viewer', '#content'].some(
  (part) => document.querySelector(`${part} img, ${part} script`) !== null)"""


def _expected(weights: np.ndarray) -> dict[str, str]:
    """The readout's weight of each cell of a head."""
    return {
        f"{query} ({q + 1}) {key} ({k + 1})": f"{weights[q, k]:.4f}"
        for q, query in enumerate("wxyz")
        for k, key in enumerate("abcde")
    }


def _close(said: dict[str, list[str]], weights: np.ndarray) -> bool:
    """Whether the readouts are the weights, to the 16 bits of a record."""
    expected = _expected(weights)
    return set(said) == set(expected) and all(
        abs(float(said[at][0].replace("−", "-")) - float(expected[at])) < 2e-4 for at in said
    )


def test_every_head_has_a_map_and_only_the_step_shown_is_fetched(show: Any) -> None:
    browser = show()
    assert browser.run("document.querySelectorAll('.al-tile canvas').length") == 4  # 2 modules of 2 heads
    assert sum("/record?" in one for one in browser.requests()) == 2


def test_the_readout_says_what_was_logged(show: Any) -> None:
    browser = show("run=a&module=decoder&head=1")
    assert _close(browser.run(HOVER), WEIGHTS["a"][2, 1])
    entropy = -(WEIGHTS["a"][2, 1, 0] * np.log(WEIGHTS["a"][2, 1, 0])).sum()
    browser.press("ArrowDown")
    assert browser.run("document.querySelector('[data-fact=entropy] b').textContent") == f"{entropy:.3f} nats"
    assert browser.run("document.querySelector('[data-fact=sum] b').textContent") == "1.000"


def test_heads_of_one_module_keep_their_numbers_in_order_of_entropy(show: Any) -> None:
    names = "[...document.querySelectorAll('.al-tiles .al-name')].map((one) => one.textContent).sort()"
    assert show("run=a&example=example+2&order=entropy").run(names) == ["1", "2"]
    assert show("run=a&example=example+1&order=entropy").run(names) == [""] * 4  # of two modules


def test_heads_are_sorted_by_entropy(show: Any) -> None:
    browser = show()
    browser.press("o")
    said = browser.run("[...document.querySelectorAll('.al-facts')].map((one) => Number(one.textContent))")
    rows = -(WEIGHTS["a"][2] * np.log(WEIGHTS["a"][2])).sum(-1).mean(-1)
    assert said == pytest.approx(sorted([*rows, *rows]), abs=0.0051)


def test_a_masked_cell_is_said_to_be_masked(show: Any) -> None:
    said = show("run=a&example=example 2").run(HOVER)
    assert said["w (1) x (2)"][0] == "masked" and said["x (2) w (1)"][0] != "masked"


@pytest.mark.slow
def test_the_slider_changes_the_map(show: Any) -> None:
    browser = show()
    last = browser.run(PIXELS)
    slide = "const s = document.querySelector('.al-slider'); s.value = 0; s.dispatchEvent(new Event('input'))"
    browser.run(f"(() => {{ {slide} }})()")
    browser.wait(READY)
    assert browser.run(PIXELS) != last
    assert _close(browser.run(HOVER), WEIGHTS["a"][0, 0])


@pytest.mark.slow
def test_playing_shows_every_step_and_stops(show: Any) -> None:
    browser = show()
    browser.run("""new MutationObserver(() => {
      (window.seen ??= new Set()).add(document.querySelector('.al-step').textContent);
    }).observe(document.querySelector('.al-step'), {childList: true})""")
    browser.press(" ")
    browser.wait("window.seen?.has('step 0 · 1 of 3') && window.seen.has('step 10 · 2 of 3')")
    browser.wait("window.seen.has('step 20 · 3 of 3')")
    browser.wait("document.querySelector('[data-act=play]').textContent === '▶'")


@pytest.mark.slow
def test_two_runs_and_their_difference(show: Any) -> None:
    browser = show("run=a&with=b")
    said = browser.run(HOVER)
    difference = WEIGHTS["b"][2, 0] - WEIGHTS["a"][2, 0]
    expected = _expected(difference)
    assert set(said) == set(expected)
    for cell, (_, found) in said.items():
        assert abs(float(found.replace("−", "-")) - float(expected[cell])) < 2e-4
    alone = show("run=a&with=b&side=b").run(HOVER)
    assert _close(alone, WEIGHTS["b"][2, 0])


@pytest.mark.slow
def test_lines_are_the_weights_above_the_threshold(show: Any) -> None:
    for above in (0.1, 0.4):
        svg = show(f"run=a&view=lines&above={above}").run(f"{SAVED}('svg')")
        paths = [part for part in svg.split("<path ")[1:] if "C" in part.split('d="')[1].split('"')[0]]
        assert len(paths) == (WEIGHTS["a"][2, 0] >= above).sum()


def test_a_link_restores_the_view(show: Any) -> None:
    browser = show()
    for key in ("]", "ArrowLeft", "s", "ArrowDown", "v"):
        browser.press(key)
    view = (
        "[document.querySelector('.al-readout').textContent, document.querySelector('.al-step').textContent]"
    )
    browser.wait("location.hash.includes('lines')")  # the address follows a moment later
    address, before, pixels = browser.run("location.href"), browser.run(view), browser.run(PIXELS)
    assert "x" in before[0] or "w" in before[0]
    browser.open(address)
    assert browser.run(view) == before and browser.run(PIXELS) == pixels


@pytest.mark.parametrize(("example", "view"), [("example 3", "Picture"), ("example 4", "Curve")])
def test_pictures_and_axes_have_a_view_of_their_own(show: Any, example: str, view: str) -> None:
    browser = show(f"run=a&example={example}&query=1")
    assert browser.run("document.querySelector('.al-tools [aria-pressed=true]').textContent") == view
    assert browser.run(f"{SAVED}('png')")[0] == "image/png"
    assert not browser.complaints()


def test_hostile_labels_do_nothing(show: Any) -> None:
    browser = show("run=hostile&query=0&key=1")
    for view in ("map", "lines"):
        assert browser.run("document.querySelectorAll('.al-tile').length") == 1
        kind, width, height = browser.run(f"{SAVED}('png')")
        assert kind == "image/png" and width < 6000 and height < 6000
        svg = browser.run(f"{SAVED}('svg')")
        parsed = f"new DOMParser().parseFromString({json.dumps(svg)}, 'image/svg+xml')"
        assert browser.run(f"{parsed}.querySelectorAll('parsererror, script, img').length") == 0, view
        browser.press("v")
    assert not browser.run(OWNED) and not browser.complaints()


def test_in_tensorboard_it_asks_nobody_else_and_follows_the_page(
    browser: Browser, address: str, logs: Path
) -> None:
    frame = "document.querySelector('iframe')?.contentDocument"
    inside = f"{frame}?.querySelector('.al-viewer')"
    grounds = {}
    for dark in ("true", "false"):
        browser.open(f"{address}?darkMode={dark}#attention_lab", f"{inside}?.dataset.state === 'ready'")
        grounds[dark] = browser.run(f"getComputedStyle({inside}).backgroundColor")
        bars = f"getComputedStyle({frame}.documentElement).colorScheme"  # the colour of the page's scroll bar
        assert browser.run(bars) == {"true": "dark", "false": "normal"}[dark]
        assert browser.run(f"{frame}.title") == "Attention"
        ours = [one for one in browser.requests() if "attention_lab" in one]
        assert sum(one.endswith(".js") for one in ours) == 1  # all modules in one
        assert all(one.startswith((address, "data:", "blob:")) for one in browser.requests())
        assert not [text for text in browser.complaints() if "attention" in text.lower()]
    assert grounds == {"true": "rgb(16, 21, 29)", "false": "rgb(255, 255, 255)"}
    log = Log(logs / "late")
    add_attention(log, "example 1/decoder", WEIGHTS["a"][0], list("wxyz"), list("abcde"), 0)
    log.close()
    # The server rereads its logs every second; the page reloads only when told to.
    tags = f"fetch('{address}data/plugin/attention_lab/tags').then((answer) => answer.json())"
    browser.wait(f"{tags}.then((found) => 'late' in found.runs)")
    browser.run(
        "document.querySelector('app-header-reload button, header-reload button, .reload-button').click()"
    )
    browser.wait(f"[...{inside}.querySelectorAll('option')].some((one) => one.value === 'late')")


def test_the_report_opens_from_disk_and_is_as_inert(browser: Browser, logs: Path, tmp_path: Path) -> None:
    runs = []
    numbers = [Result(HOSTILE[2], HOSTILE[0], HOSTILE[1], HOSTILE[2], "headline")]
    texts = [HOSTILE[0], HOSTILE[1]]
    compared = Comparison([Table(HOSTILE[0], texts, texts, [texts], 1, [0], HOSTILE[2])], texts, texts)
    for name in ("a", "b", "hostile"):
        records = read_log(logs / name).records
        curves = {HOSTILE[0]: [(0, 1.0), (5, 0.5)], "train/loss": [(0, 2.0), (1, float("nan")), (2, 1.0)]}
        runs.append(Run(name, {HOSTILE[1]: HOSTILE[0]}, numbers, curves, records))
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading(HOSTILE[1], HOSTILE[2], HOSTILE[0]), runs, compared), encoding="utf-8")
    browser.open(f"{path.as_uri()}#run=a&head=1&example=example%201")
    assert _close(browser.run(HOVER), WEIGHTS["a"][2, 1])
    assert browser.run("document.querySelectorAll('.chart path').length") == 6
    browser.open(f"{path.as_uri()}#run=hostile&query=1")
    assert browser.run(f"{SAVED}('png')")[0] == "image/png"
    assert not browser.run(OWNED) and not browser.complaints()
    assert [one.split("#")[0] for one in browser.requests() if one.startswith(("http", "file"))] == [
        path.as_uri()
    ]
