"""Moving around in a long input: dragging, the wheel and the search."""

import re
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, READY, Browser

import attention_lab

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

SIZE = 200
SHOWN = "document.querySelector('.al-shown').textContent"
DRAG = """((steps) => {
  const over = document.querySelector('.al-over'), box = over.getBoundingClientRect();
  over.setPointerCapture = () => {}; // only a real pointer can be captured
  const point = (kind, part) => over.dispatchEvent(new PointerEvent(kind, {
    clientX: box.left + 400 - 150 * part, clientY: box.top + 300 - 90 * part, bubbles: true,
  }));
  point('pointerdown', 0);
  for (let step = 1; step <= steps; step += 1) point('pointermove', step / steps);
  point('pointerup', 1);
})"""
WHEEL = """(() => {
  const over = document.querySelector('.al-over'), box = over.getBoundingClientRect();
  const at = {clientX: box.left + 300, clientY: box.top + 200, bubbles: true, cancelable: true};
  over.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, ...at}));
})()"""


@pytest.fixture
def page(tmp_path: Path) -> str:
    """The address of a view of a long input."""
    weights = np.random.default_rng(0).dirichlet(np.ones(SIZE), (1, SIZE))
    view = attention_lab.show(weights, [f"word{at}" for at in range(SIZE)])
    return view.save(tmp_path / "view.html").as_uri()


def test_a_map_follows_the_pointer_however_often_it_reports(browser: Browser, page: str) -> None:
    """Of moves that came before the map was drawn again, all but the last were lost."""
    shown = []
    for steps in (1, 10, 50):
        browser.open(f"{page}#rows=60-90&columns=60-90")
        browser.run(f"{DRAG}({steps})")
        browser.wait(READY)
        shown.append(browser.run(SHOWN))
    assert shown[0] == shown[1] == shown[2] != "queries 61–90 · keys 61–90"


def test_turns_of_the_wheel_add_up(browser: Browser, page: str) -> None:
    browser.open(f"{page}#rows=50-150&columns=50-150")
    browser.run(f"{WHEEL}; {WHEEL}; {WHEEL}")
    browser.wait(READY)
    first, last, *_ = map(int, re.findall(r"\d+", browser.run(SHOWN)))
    assert last - first + 1 == 48  # not 78, as after one turn


def test_escape_empties_the_search_and_all_that_it_marked(browser: Browser, page: str) -> None:
    """Chromium emptied the field, but the number of matches and their marks stayed."""
    browser.open(page)
    browser.press("/")
    browser.run("document.querySelector('.al-text').scrollIntoView()")
    browser.call("Input.insertText", text="word19")
    browser.wait("document.querySelectorAll('.al-has').length === 2 * 11")
    escape = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, **escape)
    browser.wait("document.activeElement === document.body")
    assert browser.run("document.querySelector('.al-search').value") == ""
    assert browser.run("document.querySelector('.al-found').textContent") == ""
    assert browser.run("document.querySelectorAll('.al-has').length") == 0
    assert "word19" in browser.run("document.querySelector('.al-readout').textContent")  # stays chosen
