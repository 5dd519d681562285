"""Which run the tab shows before one is chosen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention_log import Log
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.tensorboard_plugin import add_attention

pytestmark = [pytest.mark.long, NEEDS_CHROMIUM]

WEIGHTS = np.full((1, 3, 3), 1 / 3, np.float32)
CHOSEN = "document.querySelector('[aria-label=\"run A\"]').value"


@pytest.mark.slow
def test_the_run_that_was_started_last_is_shown_until_one_is_chosen(
    browser: Browser, serving: Any, tmp_path: Path
) -> None:
    logs, labels = tmp_path / "logs", list("abc")
    names = [
        f"{model}/reverse_{scoring}"
        for model in ("cnn", "lm", "rnn")
        for scoring in ("dot", "cosine", "bilinear", "mlp")
    ]
    for place, name in enumerate(names):
        log = Log(logs / name, start=1000.0 if name == "lm/reverse_dot" else 1.0 + place)
        for step in (0, 5000) if name == "cnn/reverse_dot" else (0,):  # it was started first and ended last
            add_attention(log, "example 1/decoder", WEIGHTS, labels, labels, step)
        log.close()
    with serving(logs, tmp_path / "output") as server:
        page = f"http://localhost:{server.port}{server.prefix}data/plugin_entry.html?name=attention_lab"
        browser.open(page)
        assert browser.run(CHOSEN) == "lm/reverse_dot"
        browser.run("new Promise((done) => setTimeout(done, 300))")  # the address would follow a moment later
        address = "decodeURIComponent(location.href)"
        assert "run=" not in browser.run(address)  # a later run is shown when it is reloaded
        browser.press("s")
        browser.wait(f"{address}.includes('run=lm%2Freverse_dot')")


@pytest.mark.parametrize("start", [float("nan"), float("inf")])
def test_a_run_that_started_at_no_time_hides_no_other(
    browser: Browser, serving: Any, tmp_path: Path, start: float
) -> None:
    for name, time in (("known", 5.0), ("unknown", start)):
        log = Log(tmp_path / "logs" / name, start=time)
        add_attention(log, "example 1/decoder", WEIGHTS, list("abc"), list("abc"), 0)
        log.close()
    with serving(tmp_path / "logs", tmp_path / "output", "--load_fast", "false") as server:
        page = f"http://localhost:{server.port}{server.prefix}data/plugin_entry.html?name=attention_lab"
        browser.open(page)
        assert browser.run(CHOSEN) == "known"
