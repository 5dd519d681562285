"""What a screen reader says of a report."""

from pathlib import Path

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

UNNAMED = """[...document.querySelectorAll('button, input, select')].filter((one) =>
  !/\\p{L}/u.test(one.ariaLabel ?? one.textContent)).map(({outerHTML}) => outerHTML)"""


def test_every_control_has_a_name(browser: Browser, tmp_path: Path) -> None:
    """The button for dark colours was read as a circle."""
    labels = [f"token {at}" for at in range(200)]
    record = encode(AttentionRecord(np.full((2, 200, 200), 1 / 200, np.float32), labels, labels))
    page = make_page(Heading("title"), [Run("run", records={"example 1/decoder": {0: record, 1: record}})])
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run("document.querySelectorAll('button, input, select').length") > 20
    assert browser.run(UNNAMED) == []
