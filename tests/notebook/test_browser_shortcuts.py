"""Shortcuts of a single character can be turned off: speech control types what it hears (WCAG 2.2, 2.1.4)."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, READY, Browser

import attention_lab

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

VIEW = attention_lab.show(np.full((2, 3, 3), 1 / 3), list("abc"))
SCALE = "document.querySelector('[aria-label=scale] [aria-pressed=true]').dataset.value"
QUERY = "document.querySelector('[data-fact=query] b')?.textContent"
HELP = "document.querySelector('[data-act=help]').click()"
SWITCH = "document.querySelector('.al-help input')"
CLOSE = "document.querySelector('.al-help button').click()"


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    browser.open(VIEW.save(tmp_path / "view.html").as_uri())
    yield browser
    browser.run("localStorage.clear()")


def _turn(browser: Browser, frame: str | None = None) -> None:
    """Press the switch in the list of shortcuts."""
    for step in (HELP, f"{SWITCH}.click()", CLOSE):
        browser.run(step, frame)


def _type(browser: Browser, text: str, frame: str | None = None) -> None:
    for key in text:
        event = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}})"
        browser.run(f"document.body.dispatchEvent({event})", frame)
    browser.wait(READY, frame)


def test_turned_off_they_do_nothing_also_when_the_page_is_opened_again(opened: Browser) -> None:
    _type(opened, "s")
    assert opened.run(SCALE) == "root"
    _type(opened, "s")
    _turn(opened)
    opened.open(opened.run("location.href"))
    _type(opened, "s?/ v")
    assert opened.run(SCALE) == "linear"
    assert not opened.run("document.querySelector('dialog').open")
    assert (
        opened.run("document.querySelector('[aria-label=view] [aria-pressed=true]').dataset.value") == "map"
    )
    opened.press("ArrowDown")  # is no character
    assert opened.run(QUERY) == "a (1)"
    opened.press("Escape")
    assert opened.run(QUERY) is None
    _turn(opened)
    _type(opened, "s")
    assert opened.run(SCALE) == "root"


def test_the_switch_stands_with_the_list_of_shortcuts_and_says_what_stays(opened: Browser) -> None:
    opened.run(HELP)
    assert opened.run(f"{SWITCH}.checked")
    said = opened.run(f"{SWITCH}.closest('label').textContent")
    assert said == "Single-character shortcuts (arrow keys and Esc always work)"
    assert opened.run("document.activeElement.textContent") == "Close"  # as Enter closes the help
    opened.run(f"{SWITCH}.click()")
    assert opened.run("document.querySelectorAll('.al-help kbd.al-off').length") > 15
    assert (
        opened.run("[...document.querySelectorAll('.al-help kbd:not(.al-off)')].at(-1).textContent") == "Esc"
    )


def test_a_frame_that_may_store_nothing_has_the_switch_too(browser: Browser, tmp_path: Path) -> None:
    """As in a notebook, where it lasts as long as the page."""
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><body>{VIEW._repr_html_()}", encoding="utf-8")
    browser.open(path.as_uri(), "document.readyState === 'complete'")
    (frame,) = browser.frames()
    browser.wait(READY, frame)
    _turn(browser, frame)
    _type(browser, "s", frame)
    assert browser.run(SCALE, frame) == "linear"
    _turn(browser, frame)
    _type(browser, "s", frame)
    assert browser.run(SCALE, frame) == "root"
    assert not browser.complaints()
