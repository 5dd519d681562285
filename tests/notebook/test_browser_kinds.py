"""Runs that are compared may have attention of different kinds: over a picture, an axis, or with labels."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.notebook import View
from attention_lab.tensorboard_plugin import AttentionRecord, Ink

pytestmark = NEEDS_CHROMIUM

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(8), (1, 3)).astype(np.float32)
LABELS = list("123"), list("abcdefgh")
RECORDS = {
    "text": AttentionRecord(WEIGHTS, *LABELS),
    "picture": AttentionRecord(WEIGHTS, *LABELS, picture=Ink(np.zeros((4, 8), np.uint8), 2)),
    "curve": AttentionRecord(WEIGHTS, *LABELS, x=(np.arange(3.0), np.linspace(0, 2, 8))),
}
OWN = {"text": "Map", "picture": "Picture", "curve": "Curve"}
VIEW = "document.querySelector('.al-tools [aria-label=view] [aria-pressed=true]').textContent"


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), [*permutations(RECORDS, 2)])
def test_they_are_shown_as_maps_and_each_alone_in_its_own_way(
    browser: Browser, tmp_path: Path, first: str, second: str
) -> None:
    runs = {kind: {"example 1/attention": RECORDS[kind]} for kind in (first, second)}
    browser.open(View(runs).save(tmp_path / "attention.html").as_uri())
    assert browser.run(VIEW) == "Map"
    for kind in (first, second):
        browser.press("c")
        assert browser.run(VIEW) == OWN[kind]
    browser.press("c")
    assert browser.run(VIEW) == "Map" and not browser.complaints()
