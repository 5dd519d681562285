"""Text has a contrast of at least 4.5 to what is behind it (WCAG 2.2, 1.4.3)."""

from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

import attention_lab

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

CONTRAST = """((one, part = null) => {
  const numbers = (text) => text.match(/[\\d.]+/gu).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => (c <= 10.3 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const {color, opacity} = getComputedStyle(one, part);
  const behind = numbers(getComputedStyle(one).backgroundColor).slice(0, 3);
  const seen = numbers(color).slice(0, 3).map((c, at) => opacity * c + (1 - opacity) * behind[at]);
  const [less, more] = [luminance(behind), luminance(seen)].sort((a, b) => a - b);
  return (more + 0.05) / (less + 0.05);
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_token_is_legible_on_the_colour_of_any_weight(browser: Browser, tmp_path: Path, theme: str) -> None:
    weights = np.linspace(0.01, 1, 80)[None]
    view = attention_lab.show(weights, ["query"], [f"key{at}" for at in range(80)], theme=theme)
    browser.open(f"{view.save(tmp_path / 'view.html').as_uri()}#query=0")
    shaded = "[...document.querySelectorAll('.al-token')].filter(({style}) => style.background)"
    assert browser.run(f"{shaded}.length") > 75
    assert browser.run(f"Math.min(...{shaded}.map((one) => {CONTRAST}(one)))") >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_hint_in_the_search_is_legible(browser: Browser, tmp_path: Path, theme: str) -> None:
    view = attention_lab.show(np.full((1, 200, 200), 1 / 200), theme=theme)
    browser.open(view.save(tmp_path / "view.html").as_uri())
    assert browser.run(f"{CONTRAST}(document.querySelector('.al-search'), '::placeholder')") >= 4.5
