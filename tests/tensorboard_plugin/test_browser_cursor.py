"""The labels of the chosen query and key stay in the figure."""

from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

FRAMES = """(() => {
  const frames = [], draw = CanvasRenderingContext2D.prototype.roundRect;
  CanvasRenderingContext2D.prototype.roundRect = function (left, top, width, height, ...more) {
    frames.push({left, top, right: left + width, bottom: top + height});
    draw.call(this, left, top, width, height, ...more);
  };
  document.querySelector('.al-over').dispatchEvent(
    new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true}));
  CanvasRenderingContext2D.prototype.roundRect = draw;
  const {clientWidth: width, clientHeight: height} = document.querySelector('.al-over');
  return {frames, width, height};
})()"""
"""Mark the chosen query and key again: the frames around their labels, and the size of the figure."""


@pytest.mark.parametrize("width", [400, 1300])
@pytest.mark.parametrize("view", ["map", "lines"])
def test_a_long_label_is_framed_within_the_figure(
    browser: Browser, tmp_path: Path, width: int, view: str
) -> None:
    labels = ["W" * 300, *"abcdefghijklmnopqrst"]
    size = len(labels)
    record = encode(AttentionRecord(np.full((1, size, size), 1 / size, np.float32), labels, labels))
    page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    window = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **window)
    places = ({"query": 0, "key": 0},) if view == "map" else ({"query": 0}, {"query": -1, "key": 0})
    for place in places:
        chosen = "&".join(f"{side}={at}" for side, at in place.items())
        browser.open(f"{(tmp_path / 'report.html').as_uri()}#view={view}&{chosen}")
        found = browser.run(FRAMES)
        assert len(found["frames"]) >= 1
        for frame in found["frames"]:
            assert frame["left"] >= 0 and frame["right"] <= found["width"]
            bars = 62 if width < 480 else 0  # the colour bar is below the map
            assert frame["bottom"] <= found["height"] - bars
    browser.call("Emulation.clearDeviceMetricsOverride")
