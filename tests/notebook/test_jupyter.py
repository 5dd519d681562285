"""The notebook of the documentation, executed and shown in JupyterLab, and hostile tokens in one."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from chromium import NEEDS_CHROMIUM, READY, Browser

REPOSITORY = Path(__file__).parents[2]
OWNED = "top.owned = document.title = 'owned'"
HOSTILE = f'</iframe></script><script>{OWNED}</script><img src=x onerror="{OWNED}">'

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]


def _jupyter(*arguments: str, folder: Path) -> None:
    command = [sys.executable, "-m", "jupyter", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _hostile_notebook(path: Path) -> None:
    lines = [
        "import numpy as np, attention_lab",
        f"attention_lab.show(np.full((2, 3, 3), 1 / 3), ['a', {HOSTILE!r}, 'c'], title={HOSTILE!r})",
    ]
    cell = {"cell_type": "code", "id": "a", "execution_count": None, "metadata": {}, "outputs": []}
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    cells = [{**cell, "source": "\n".join(lines)}]
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Executed notebooks, which are trusted as if they had been executed in JupyterLab."""
    for package in ("jupyterlab", "nbconvert", "ipykernel", "transformers"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copy(REPOSITORY / "docs" / "notebook.ipynb", folder / "example.ipynb")
    _hostile_notebook(folder / "hostile.ipynb")
    for name in ("example.ipynb", "hostile.ipynb"):
        _jupyter("nbconvert", "--to", "notebook", "--execute", "--inplace", name, folder=folder)
        _jupyter("trust", name, folder=folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    output = folder / "server.txt"
    options = ["--no-browser", "--allow-root", "--port=0", "--IdentityProvider.token=x", "--LabApp.news_url="]
    with output.open("w") as log:
        command = [sys.executable, "-m", "jupyter", "lab", *options, f"--ServerApp.root_dir={folder}"]
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        for _ in range(600):
            if found := re.search(r"http://localhost:\d+/", output.read_text()):
                break
            assert server.poll() is None, output.read_text()
            time.sleep(0.1)
        assert found is not None
        yield found[0]
    finally:
        server.terminate()
        server.wait()


def _clip(box: dict[str, float]) -> dict[str, float]:
    """The first view with what is around it."""
    return {"x": 0, "y": max(0, box["top"] - 300), "width": box["left"] + box["width"] + 40, "height": 1100}


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize(("name", "views"), [("example.ipynb", 4), ("hostile.ipynb", 1)])
def test_jupyterlab_shows_the_view(
    browser: Browser, address: str, folder: Path, name: str, views: int, width: int
) -> None:
    browser.call(  # so high that JupyterLab draws all cells
        "Emulation.setDeviceMetricsOverride", width=width, height=5000, deviceScaleFactor=1, mobile=False
    )
    count = "document.querySelectorAll('iframe[srcdoc]').length"
    browser.open(f"{address}doc/tree/{name}?token=x", f"{count} === {views}")
    frames = []
    for _ in range(100):
        frames = browser.frames()
        if len(frames) == views:
            break
        time.sleep(0.1)
    assert len(frames) == views
    for frame in frames:
        browser.wait(READY, frame)
        assert browser.run("document.querySelectorAll('.al-tile canvas').length", frame) > 0
        assert browser.run("document.documentElement.scrollWidth <= innerWidth", frame)
        assert browser.run("document.title !== 'owned' && origin === 'null'", frame)
    assert browser.run("document.title !== 'owned' && window.owned === undefined")
    box = browser.run("""(() => {
      const {left, top, width, height} = document.querySelector('iframe[srcdoc]').getBoundingClientRect();
      return {left, top, width, height};
    })()""")
    fact = "document.querySelector('[data-fact=weight] b')?.textContent ?? ''"
    said: list[str] = []
    for down, across in product(
        range(30, 99, 8), range(20, 90, 15)
    ):  # a real pointer, until it is on the map
        x, y = box["left"] + box["width"] * across / 100, box["top"] + box["height"] * down / 100
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        time.sleep(0.05)
        if said := list(filter(None, (browser.run(fact, frame) for frame in frames))):
            break
    assert len(said) == 1 and re.fullmatch(r"0\.\d{4}", said[0])
    if "SCREENSHOTS" in os.environ:  # to be looked at
        picture = browser.call("Page.captureScreenshot", format="png", clip={**_clip(box), "scale": 1})
        path = Path(os.environ["SCREENSHOTS"]) / f"{name}_{width}.png"
        path.write_bytes(b64decode(picture["data"]))
    browser.call("Emulation.clearDeviceMetricsOverride")
