"""Runs, options, metrics and attentions may have the names of JavaScript's own properties."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import NEEDS_CHROMIUM, Browser

import attention_lab
from attention_lab.report.html_file import Comparison, Heading, Result, Run, Table, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = NEEDS_CHROMIUM

NAMES = ["constructor", "__proto__", "toString", "hasOwnProperty", "length"]
WEIGHTS = np.full((1, 2, 2), 0.5, np.float32)
CELLS = "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"


@pytest.fixture(scope="module")
def report(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """A report on runs with these names, and on one whose options, metrics and attentions have them."""
    record = encode(AttentionRecord(WEIGHTS, ["x", "y"], ["a", "b"]))
    full = Run(
        "full",
        dict.fromkeys(NAMES, "1"),
        [Result(name, name, "0.5", "", "headline") for name in NAMES],
        {name: [(0, 1.0), (1, 2.0)] for name in NAMES},
        {f"example 1/{name}": {0: record} for name in NAMES},
    )
    page = make_page(Heading("title"), [full, *(Run(name, {"data": "x"}) for name in NAMES)])
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path.as_uri())
    return browser


def test_a_run_without_an_option_has_no_value_for_it(report: Browser) -> None:
    tables: list[Any] = report.run(f"[...document.querySelectorAll('table')].map({CELLS})")
    rows = {row[0]: row for table in tables for row in table}
    for name in NAMES:
        assert rows[name] in ([name, "1", *"–––––"], [name, *"–––––", "x", *"–––––"])
    assert "[native code]" not in report.run("document.body.textContent")


def test_such_names_are_shown_like_any_others(report: Browser) -> None:
    charts = report.run("[...document.querySelectorAll('.chart svg')].map((one) => one.ariaLabel)")
    assert sorted(charts) == sorted(name.replace("_", " ") for name in NAMES)
    modules = report.run("[...document.querySelectorAll('.al-module h3')].map((one) => one.textContent)")
    assert sorted(modules) == sorted(NAMES)
    assert not report.complaints()


def test_such_names_can_be_shown_in_a_notebook(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "view.html"
    attention_lab.show({name: dict.fromkeys(NAMES, WEIGHTS) for name in NAMES}).save(path)
    browser.open(path.as_uri())
    runs = "[...document.querySelectorAll('[aria-label=\"run A\"] option')].map((one) => one.value)"
    assert sorted(browser.run(runs)) == sorted(NAMES)
    assert browser.run("document.querySelectorAll('.al-module').length") == len(NAMES)
    assert not browser.complaints()


def test_a_name_without_spaces_makes_no_page_wider(browser: Browser, tmp_path: Path) -> None:
    """It stood in one line in the key of the curves."""
    names = [f"{one}_{'of_the_experiment_' * 3}" for one in "ab"]
    runs = [Run(name, {}, [], {"validation/loss": [(0, 1.0), (1, 2.0)]}) for name in names]
    (tmp_path / "report.html").write_text(make_page(Heading("title"), runs), encoding="utf-8")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False
    )
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.key') !== null")
    width = browser.run("document.documentElement.scrollWidth")
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert width <= 390


@pytest.mark.parametrize("width", [390, 1400])
def test_long_names_of_runs_do_not_cover_their_options(browser: Browser, tmp_path: Path, width: int) -> None:
    long = "data=reverse scoring={} trainer.max_epochs=3 trainer.limit_train_batches=8 model.hidden_size=512"
    results = [Result("test/error_rate", "error rate", "0.5000", "0.4000 to 0.6000", "headline")]
    settings = ["additive", "dot"]
    runs = [Run(long.format(one), {"seed": one, "data": one}, results) for one in settings]
    table = Table("", [], ["window", "n"], [[long.format(one), "1"] for one in settings], 1, [0], "")
    page = make_page(Heading("title"), runs, Comparison([table], [], []))
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.open((tmp_path / "report.html").as_uri(), "document.querySelector('.runs td') !== null")
    apart = """[...document.querySelectorAll('.runs tbody tr, .settings tbody tr')].map((row) => {
      const name = document.createRange();
      name.selectNodeContents(row.cells[0]);
      return row.cells[1].getBoundingClientRect().left - name.getBoundingClientRect().right;
    })"""
    found = browser.run(apart)
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert len(found) == 4 and min(found) >= 0
