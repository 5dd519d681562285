"""The Attention tab on long inputs: time to the first view, and from a reader's action to the new picture.

It needs Chromium, which the tests' driver starts without a window, and `aiohttp` from the extra `dev`.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from attention_lab.errors import LabError
from attention_lab.tensorboard_plugin import add_attention
from benchmarks.measuring.report import Table, duration

HEADS, TIMES = 8, 10
PAUSE = 200
"""Milliseconds before the reader presses the next key."""
PATIENCE = 120.0
"""Seconds that TensorBoard has to start and read the logs."""
WORDS = "the quick brown fox jumps over the lazy dog , and it runs from a slow turtle un ##believ ##ably"

_DRIVER = Path(__file__).parents[2] / "tests" / "support"
_VIEW = "document.querySelector('.al-viewer')"
_STARTED = "location.protocol === 'http:' && document.body && document.readyState !== 'loading'"
_FIRST = f"""new Promise((done) => {{
  const ready = () => {_VIEW}?.dataset.state === 'ready';
  const look = () => (ready() ? done(performance.now()) : requestAnimationFrame(look));
  look();
}})"""
_TIMED = f"""(async (act, times, pause) => {{
  const view = {_VIEW}, found = [];
  const later = (wait) => new Promise((done) => setTimeout(done, wait));
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (let at = 0; at < times; at += 1) {{
    await later(pause);
    await frame();
    const begin = performance.now();
    act(at);
    while (view.dataset.state !== 'ready') await later();
    await frame(); // what was drawn is on its way to the screen
    found.push(performance.now() - begin);
  }}
  return found;
}})"""
_PRESS = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: %s, bubbles: true}))"
_POINT = """((kind, event, more) => {
  const over = document.querySelector('.al-over'), { left, top } = over.getBoundingClientRect();
  const at = { clientX: left + 200 + 20 * more.at, clientY: top + 150 + 15 * more.at, ...more };
  over.dispatchEvent(new event(kind, { bubbles: true, cancelable: true, ...at }));
})"""
_QUERIES = "document.querySelectorAll('.al-tokens')[1]"
ACTIONS = {
    "next head": _PRESS % "']'",
    "zoom in 5 times, out 5 times": _PRESS % "at % 10 < 5 ? '+' : '-'",
    "wheel in and out": f"{_POINT}('wheel', WheelEvent, {{ at: 5, deltaY: at % 2 ? 120 : -160 }})",
    "largest or mean": _PRESS % "'t'",
    "map or lines": _PRESS % "'v'",
    "hover": f"{_POINT}('pointermove', PointerEvent, {{ at }})",
    "pin a cell": f"{_POINT}('click', MouseEvent, {{ at }})",
    "pin a token of the text": f"{_QUERIES}.querySelectorAll('span, button')[at].click()",
    "search": """(() => {
  const search = document.querySelector('.al-search');
  search.value = ['turtle', 'fox', 'dog'][at % 3];
  search.dispatchEvent(new Event('input'));
})()""",
}
"""A reader's actions, as scripts in which `at` counts the repetitions."""
CONTINUOUS = {"wheel in and out", "hover"}
"""Actions that are repeated without a pause."""
SCROLLED = {"pin a token of the text": f"{_QUERIES}.scrollIntoView()"}
"""Scripts to run before an action."""


def tables(device: torch.device, quick: bool) -> Iterator[Table]:
    """One table with a row for each action and columns for each length."""
    lengths, times = ((48, 64), 2) if quick else ((2048, 8192), TIMES)
    found = [_measured(length, times) for length in lengths]
    rows = [
        [name, *(duration(kind(one[name]) / 1e3) for one in found for kind in (median, max))]
        for name in found[0]
    ]
    yield Table(
        title=f"Chromium, {HEADS} heads, 1400 x 900 pixels",
        columns=["action", *(f"{n:,} tokens, {kind}" for n in lengths for kind in ("median", "worst"))],
        rows=rows,
        note=f"Each action {times} times in a page opened for it, {PAUSE} ms apart except for wheel and "
        "hover. The first view is timed from the request for the tab's page, with an empty cache; an action "
        "from its event to the frame that shows it. Chromium draws a frame every 16.7 ms.",
    )


def _measured(length: int, times: int) -> dict[str, list[float]]:
    """The milliseconds of the first view and of each action."""
    driver = _driver()
    with TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        _write(logs / "long", length)
        with _tensorboard(logs) as address:
            browser = driver.Browser(Path(folder, "profile"))
            try:
                return _each(browser, f"{address}data/plugin_entry.html?name=attention_lab", times)
            finally:
                browser.close()


def _each(browser: Any, page: str, times: int) -> dict[str, list[float]]:
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False
    )
    browser.call("Network.setCacheDisabled", cacheDisabled=True)
    address = f"{page}#attention_lab&p.attention_lab.view={quote('run=long')}"
    first = []
    for _ in range(times):
        browser.open(address, _STARTED)
        first.append(browser.run(_FIRST))
    found = {"first view": first}
    for name, action in ACTIONS.items():
        browser.open(address)
        if name in SCROLLED:
            browser.run(SCROLLED[name])
            sleep(0.5)
        pause = 0 if name in CONTINUOUS else PAUSE
        found[name] = browser.run(f"{_TIMED}((at) => {{ {action} }}, {times}, {pause})")
    if said := browser.complaints():
        raise LabError(f"the page complains: {said[0][:200]}")
    return found


def _driver() -> Any:
    """The tests' driver for Chromium.

    Raises:
        LabError: the driver or Chromium is missing.
    """
    if find_spec("aiohttp") is None:
        raise LabError("the topic viewer needs aiohttp: pip install -e '.[dev]'")
    if str(_DRIVER) not in sys.path:
        sys.path.append(str(_DRIVER))
    driver = import_module("chromium")
    if driver.CHROMIUM is None:
        raise LabError("the topic viewer needs Chromium, which is not on the PATH: apt-get install chromium")
    return driver


def _write(folder: Path, length: int) -> None:
    """Log causal attention to nearby tokens and to the first one, the same array for every head."""
    rng = np.random.default_rng(0)
    at = np.arange(length)
    weights = np.zeros((length, length), np.float32)
    for start in range(0, length, 512):
        query = at[start : start + 512, None]
        scores = rng.normal(size=(len(query), length)).astype(np.float32) - np.abs(query - at - 64) / 200
        scores[:, 0] += 8
        scores[query < at] = -np.inf
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights[start : start + 512] = exponentials / exponentials.sum(axis=1, keepdims=True)
    shape = (HEADS, length, length)
    words = WORDS.split()
    labels = [words[(7 * one + one // 31) % len(words)] for one in range(length)]
    with SummaryWriter(str(folder)) as writer:
        mask = np.broadcast_to(at[:, None] >= at, shape)
        add_attention(
            writer, "example 1/layer 1", np.broadcast_to(weights, shape), labels, labels, 0, mask=mask
        )


@contextmanager
def _tensorboard(logs: Path) -> Iterator[str]:
    """Start TensorBoard, and give its address once it has read the logs."""
    output = logs.with_name("tensorboard.txt")
    command: Sequence[str] = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logs), "--port", "0"]
    with output.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        end = monotonic() + PATIENCE
        address = ""
        while not address or b"long" not in urlopen(f"{address}data/runs").read():
            if server.poll() is not None or monotonic() > end:
                raise LabError(f"TensorBoard does not start: {output.read_text()[-300:]!r}")
            sleep(0.2)
            found = re.search(r"at (http://localhost:\d+/)", output.read_text())
            address = found[1] if found else ""
        yield address
    finally:
        server.terminate()
        server.wait()
