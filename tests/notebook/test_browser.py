"""What `show` gives, in a real browser: in the frame that a notebook makes of it, and as a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, READY, SAVED_SVG, Browser

import attention_lab
from attention_lab.notebook.view import View

pytestmark = NEEDS_CHROMIUM

OWNED = "top.owned = parent.owned = document.title = 'owned'"
HOSTILE = [
    f"</script><script>{OWNED}</script>",
    f'<img src=x onerror="{OWNED}">',
    f"</iframe><script>{OWNED}</script>",
    f'\'"><svg onload="{OWNED}">',
    "&quot;&#60;script>",
    "\0\u202e",
]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(6), (2, 6))
FACTS = """(() => {
  const over = document.querySelector('.al-over'), box = over.getBoundingClientRect();
  const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 3, bubbles: true};
  over.dispatchEvent(new PointerEvent('pointermove', at));
  return [...document.querySelectorAll('[data-fact]')].map((one) => one.dataset.fact);
})()"""
DRAWN = """(() => {
  const drawn = [], draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    drawn.push(text);
    draw.call(this, text, ...more);
  };
  document.querySelector('[data-value=root]').click();
  return new Promise((resolve) => setTimeout(() => resolve(drawn), 300));
})()"""
"""Texts that the figure draws."""
COLOURS = """(() => {
  const masked = document.querySelector('.al-masked');
  const rgb = (text) => text.match(/[\\d.]+/gu).slice(0, 3).map(Number);
  const paper = (one) => {
    const {backgroundColor} = getComputedStyle(one);
    return backgroundColor === 'rgba(0, 0, 0, 0)' ? paper(one.parentElement) : rgb(backgroundColor);
  };
  const behind = paper(masked), {opacity} = getComputedStyle(masked);
  const seen = (one) => rgb(getComputedStyle(one).color);
  const faded = seen(masked).map((shade, at) => opacity * shade + (1 - opacity) * behind[at]);
  const other = document.querySelectorAll('.al-tokens')[1].querySelector(':not(p)');
  return [behind, faded, seen(other)];
})()"""
"""The colours behind a masked token, of its text, and of that of a query."""
NOTHING = """document.title !== 'owned' && !window.owned &&
  document.querySelectorAll('.al-viewer img, .al-viewer script, .al-viewer svg').length === 0"""


@pytest.mark.long
def test_of_examples_of_one_size_the_first_is_shown(browser: Browser, tmp_path: Path) -> None:
    """A view of a batch of equally long inputs opened on its second example."""
    view = attention_lab.show({"attention": np.stack([WEIGHTS] * 3)})
    browser.open(view.save(tmp_path / "three.html").as_uri())
    picker = "document.querySelector('[aria-label=example]')"
    assert browser.run(f"[{picker}.value, {picker}.options.length]") == ["example 1", 3]


@pytest.mark.long
@pytest.mark.parametrize("width", [1000, 390])
def test_a_frame_draws_reads_and_does_nothing_else(browser: Browser, tmp_path: Path, width: int) -> None:
    view = attention_lab.show(WEIGHTS, HOSTILE, title=HOSTILE[0], input=HOSTILE[1])
    frame = _in_notebook(browser, tmp_path, view, "><title>notebook</title", width)
    assert browser.run("document.querySelectorAll('.al-tile canvas').length", frame) == 2
    assert browser.run(FACTS, frame) == ["query", "key", "weight", "entropy", "sum"]
    assert browser.run(f"{NOTHING} && origin === 'null'", frame)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth", frame)
    assert browser.run(f"document.title === 'notebook' && {NOTHING}")
    assert [one for one in browser.requests() if one.startswith(("http", "file"))] == [
        (tmp_path / "notebook.html").as_uri()
    ]
    assert not browser.complaints()
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((1, 3, 3), 1000),
        ((1, 5, 5), 700),
        ((2, 4, 4), 830),
        ((8, 11, 11), 820),
        ((8, 11, 11), 700),
        ((8, 15, 15), 480),
        ((2, 5, 5), 390),
    ],
)
def test_nothing_scrolls_inside_a_frame(
    browser: Browser, tmp_path: Path, shape: tuple[int, int, int], width: int
) -> None:
    """The list of heads is above the map in a narrow frame, and the colour bar below it on a phone."""
    view = attention_lab.show(np.full(shape, 1 / shape[2], np.float32))
    frame = _in_notebook(browser, tmp_path, view, "", width)
    assert browser.run("document.documentElement.scrollHeight <= innerHeight", frame)
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
def test_the_numbers_of_a_colour_bar_on_a_phone_are_apart(browser: Browser, tmp_path: Path) -> None:
    """Under a square root, those at 0.05 and 0.1 of the largest weight were one number, 0.0170.034."""
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False
    )
    path = attention_lab.show(np.full((1, 3, 3), 0.34, np.float32)).save(tmp_path / "bar.html")
    browser.open(f"{path.as_uri()}#scale=root&range=shared")
    apart = """(text) => {
      document.body.innerHTML = text;
      const texts = [...document.querySelectorAll('svg text')];
      const found = texts.filter((one) => /^[0-9.]+$/u.test(one.textContent));
      const below = Math.max(...found.map((one) => one.getBoundingClientRect().top));
      const boxes = found.map((one) => one.getBoundingClientRect()).filter(({top}) => below - top < 4);
      boxes.sort((one, other) => one.left - other.left);
      return boxes.slice(1).map((box, at) => box.left - boxes[at].right);
    }"""
    found = browser.run(f"{SAVED_SVG}.then({apart})")
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert len(found) > 3 and min(found) > 2


@pytest.mark.long
def test_long_names_of_runs_leave_what_they_are_on_one_line(browser: Browser, tmp_path: Path) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False
    )
    names = "before the change of the learning rate and of the schedule", "after"
    runs = {name: {"layer": WEIGHTS} for name in names}
    browser.open(attention_lab.show(runs).save(tmp_path / "runs.html").as_uri())
    heights = browser.run("[...document.querySelectorAll('.al-run span')].map((one) => one.offsetHeight)")
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert len(heights) == 2 and min(heights) > 0 and max(heights) < 25


@pytest.mark.long
@pytest.mark.parametrize(
    ("said", "theme", "other"),
    [
        ("data-jp-theme-light=false", "dark", "data-jp-theme-light=true"),
        ("data-jp-theme-light=true", "light", "data-jp-theme-light=false"),
        ("class=vscode-dark", "dark", "class=vscode-light"),
        ("class='vscode-high-contrast vscode-high-contrast-light'", "light", "class=vscode-high-contrast"),
    ],
)
def test_a_frame_has_the_colours_of_the_notebook(
    browser: Browser, tmp_path: Path, said: str, theme: str, other: str
) -> None:
    """A light frame stood in a dark notebook if the system was light."""
    shown = "document.querySelector('.al-viewer').dataset.theme"
    frame = _in_notebook(browser, tmp_path, attention_lab.show(WEIGHTS), said, 1000)
    browser.wait(f"{shown} === '{theme}'", frame)
    name, value = other.split("=")
    browser.run(f"document.body.setAttribute('{name}', '{value}')")
    browser.wait(f"{shown} !== '{theme}'", frame)
    chosen = _in_notebook(browser, tmp_path, attention_lab.show(WEIGHTS, theme="light"), said, 1000)
    assert browser.run(shown, chosen) == "light"
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [6, 450])
def test_masked_tokens_can_be_read(browser: Browser, tmp_path: Path, size: int, theme: Any) -> None:
    """Their contrast with the background is at least 4.5 to 1, as WCAG requires of text."""
    weights, mask = np.full((size, size), 1 / size, np.float32), np.tril(np.ones((size, size), bool))
    view = attention_lab.show(weights, ["token"] * size, mask=mask, theme=theme)
    browser.open(f"{view.save(tmp_path / 'masked.html').as_uri()}#query=0")
    colours = browser.run(COLOURS)
    background, masked, other = (np.array(colour) for colour in colours)
    assert 4.5 <= _contrast(masked, background) < _contrast(other, background) / 2


def _contrast(one: Any, other: Any) -> float:
    """The ratio of two colours' relative luminances, as WCAG defines it."""
    linear = [
        np.where((c := rgb / 255) <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for rgb in (one, other)
    ]
    dark, light = sorted(float(rgb @ [0.2126, 0.7152, 0.0722]) for rgb in linear)
    return (light + 0.05) / (dark + 0.05)


def _in_notebook(browser: Browser, folder: Path, view: View, attributes: str, width: int) -> str:
    """Show a view as the output of a notebook that says what theme it has, and return its frame's session."""
    path = folder / "notebook.html"
    path.write_text(f"<!DOCTYPE html><body {attributes}>{view._repr_html_()}", encoding="utf-8")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    browser.open(path.as_uri(), "document.readyState === 'complete'")
    (frame,) = browser.frames()
    browser.wait(READY, frame)
    return frame


@pytest.mark.long
@pytest.mark.parametrize("framed", [False, True])
def test_the_map_is_printed_without_its_buttons(browser: Browser, tmp_path: Path, framed: bool) -> None:
    """Chromium prints an empty canvas white, so the one with the cursor hid the map."""
    view = attention_lab.show({f"layer {n}": WEIGHTS for n in range(12)})
    page = None
    if framed:
        page = _in_notebook(browser, tmp_path, view, "", 700)
    else:
        browser.open(view.save(tmp_path / "layers.html").as_uri())
    browser.call("Emulation.setEmulatedMedia", page, media="print")
    style = "(part) => getComputedStyle(document.querySelector(part))"
    heads = f"({style})('.al-overview').overflowY"
    for hidden in (".al-over", ".al-tools", ".al-order .al-choice", ".al-readout"):
        assert browser.run(f"({style})('{hidden}').display", page) == "none"
    assert browser.run(heads, page) == ("auto" if framed else "visible")  # in a frame, they have no room
    browser.call("Emulation.setEmulatedMedia", page, media="")
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
def test_a_head_without_weights_is_not_the_most_focused(browser: Browser, tmp_path: Path) -> None:
    """Its entropy is 0, which is also that of a head that looks at single keys."""
    weights = np.stack([np.zeros((6, 6)), WEIGHTS[0], np.eye(6)])
    path = attention_lab.show(weights).save(tmp_path / "heads.html")
    browser.open(f"{path.as_uri()}#order=entropy")
    names = "[...document.querySelectorAll('.al-name')].map((one) => one.textContent)"
    assert browser.run(names) == ["3", "2", "1"]


@pytest.mark.long
def test_a_file_opens_by_itself_with_its_runs(browser: Browser, tmp_path: Path) -> None:
    runs = {"before": {"layer": WEIGHTS}, "after": {"layer": WEIGHTS[::-1]}}
    path = attention_lab.show(runs, list("abcdef"), theme="dark").save(tmp_path / "attention.html")
    browser.open(path.as_uri())
    chosen = "[...document.querySelectorAll('[aria-label^=run]')].map((one) => one.value)"
    assert browser.run(chosen) == ["before", "after"]  # in the order given, and compared
    drawn = browser.run(DRAWN)
    assert "A · head 1 · before" in drawn and not any("step" in text for text in drawn)
    assert browser.run("document.querySelector('.al-viewer').dataset.theme") == "dark"
    assert browser.run(FACTS).count("weight") == 2
    browser.run("document.querySelector('[data-act=theme]').click()")
    assert browser.run("document.querySelector('.al-viewer').dataset.theme") == "light"
    assert not browser.complaints()


@pytest.mark.long
def test_a_picture_of_the_view_is_named_by_what_it_shows(browser: Browser, tmp_path: Path) -> None:
    """Its title began with the blank name of a run, and gave a step of training."""
    browser.open(attention_lab.show({"layer": WEIGHTS}).save(tmp_path / "view.html").as_uri())
    assert ">example 1 · layer · head 1</text>" in browser.run(SAVED_SVG)


@pytest.mark.long
def test_a_long_input_fits_a_page(browser: Browser, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).random((2, 1500, 1500), np.float32)
    weights /= weights.sum(-1, keepdims=True)
    path = attention_lab.show(weights, [f"token {at}" for at in range(1500)]).save(tmp_path / "long.html")
    assert path.stat().st_size < 8 << 20  # of weights alone it would be 9 MiB, and 12 as text
    browser.open(f"{path.as_uri()}#query=700&rows=690-710&columns=690-710")
    said = browser.run("document.querySelector('.al-message').textContent")
    assert "the 64 largest weights of each query" in said
    assert browser.run("document.querySelector('.al-shown').textContent") == "queries 691–710 · keys 691–710"
    assert not browser.complaints()
