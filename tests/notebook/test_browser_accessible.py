"""What a screen reader says of the viewer, and what remains to be seen of it with forced colours."""

from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser, names_of

import attention_lab

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 2)).astype(np.float32)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Browser:
    view = attention_lab.show(WEIGHTS, ["the", "cat"], ["die", "Katze", "."], title="Two words")
    browser.open(view.save(tmp_path / "view.html").as_uri())
    return browser


def _press(browser: Browser, *keys: str, modifiers: int = 0) -> None:
    for key in keys:
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)


def test_the_map_takes_keys_and_its_readout_says_the_cell(opened: Browser) -> None:
    """A screen reader keeps arrow keys for itself on an image, but passes them to an application."""
    assert names_of(opened, "application") == ["head 1 · attention"]
    opened.run("document.querySelector('.al-over').focus()")
    _press(opened, "ArrowDown", "ArrowDown")
    _press(opened, "ArrowRight", modifiers=8)
    readout = "document.querySelector('.al-readout')"
    live = f"(({{ariaLive, ariaAtomic}}) => [ariaLive, ariaAtomic])({readout})"
    assert opened.run(live) == ["polite", "true"]  # so that all of it is said, not only what changed
    said = opened.run(f"{readout}.innerText.split(/\\s+/).join(' ')")
    assert said.startswith(f"query cat (2) key die (1) weight {WEIGHTS[0, 1, 0]:.4f} entropy")
    opened.press("]")
    assert names_of(opened, "application") == ["head 2 · attention"]
    opened.run("document.querySelector('[data-value=lines]').click()")
    said = "document.querySelector('.al-over').ariaRoleDescription"
    assert opened.run(said) == "attention as lines"


def test_a_name_contains_what_the_button_shows(opened: Browser) -> None:
    """Speech control presses the button whose name is spoken as the screen shows it (WCAG 2.2, 2.5.3)."""
    entropy = [-(head * np.log(head)).sum(-1).mean() for head in WEIGHTS]
    names = names_of(opened, "button")
    assert [f"attention, head {at + 1}: {one:.2f} nats of entropy" for at, one in enumerate(entropy)] == [
        name.split(", max")[0] for name in names if name.startswith("attention")
    ]
    assert "0–1: the same scale everywhere" in names


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_headings_skip_no_level(browser: Browser, tmp_path: Path, heads: int, width: int) -> None:
    view = attention_lab.show(WEIGHTS[:heads], title="Two words")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    try:
        browser.open(view.save(tmp_path / "view.html").as_uri())
        headings = names_of(browser, "heading")
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")
    assert headings in (["Two words"], ["Two words", "Heads", "attention"])


@pytest.mark.parametrize("heads", [1, 2])
def test_a_page_without_a_title_has_a_heading_for_screen_readers_only(
    browser: Browser, tmp_path: Path, heads: int
) -> None:
    browser.open(attention_lab.show(WEIGHTS[:heads]).save(tmp_path / "view.html").as_uri())
    assert names_of(browser, "heading") == ["Attention", "Heads", "attention"]
    top = "document.querySelector('.al-body').getBoundingClientRect().top"
    assert browser.run(top) == 0  # without an empty bar above
    assert browser.run("document.querySelectorAll('h1').length") == 1


def test_a_long_text_can_be_scrolled_with_keys(browser: Browser, tmp_path: Path) -> None:
    view = attention_lab.show(np.full((1, 500, 500), 1 / 500), [f"token{at}" for at in range(500)])
    browser.open(view.save(tmp_path / "view.html").as_uri())
    texts = (
        "[...document.querySelectorAll('.al-running')].map(({tabIndex, ariaLabel}) => [tabIndex, ariaLabel])"
    )
    assert browser.run(texts) == [[0, "keys"], [0, "queries"]]


def test_what_is_chosen_and_the_weights_are_seen_with_forced_colours(opened: Browser) -> None:
    """The browser then removes shadows, and gives all backgrounds the same colour."""
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    try:
        opened.run("document.querySelector('[data-value=lines]').click()")
        _press(opened, "ArrowDown")
        look = "(({backgroundColor, outlineStyle}) => [backgroundColor, outlineStyle])(getComputedStyle(one))"
        looks = f"((some) => [...document.querySelectorAll(some)].map((one) => {look}))"
        chosen, other = opened.run(f"{looks}('.al-tools [aria-label=view] button')")[::-1]
        assert chosen[0] != other[0]
        assert [outline for _, outline in opened.run(f"{looks}('.al-tile')")] == ["solid", "none"]
        keys = opened.run(f"{looks}('.al-line:has([title^=key]) .al-token')")
        assert len({background for background, _ in keys}) == 3
        assert [outline for _, outline in opened.run(f"{looks}('[title^=query]')")] == ["solid", "none"]
    finally:
        opened.call("Emulation.setEmulatedMedia", features=[])
