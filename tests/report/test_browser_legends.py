"""The names of runs in the report's charts and samples, which tell them apart."""

from pathlib import Path

import numpy as np
from chromium import NEEDS_CHROMIUM, Browser

from attention_lab.report.html_file import Heading, Run, make_page
from attention_lab.tensorboard_plugin import AttentionRecord, encode

pytestmark = NEEDS_CHROMIUM

KEYS = """[...document.querySelectorAll('.chart')].map((chart) => [
  chart.querySelector('svg').ariaLabel,
  ...[...chart.querySelectorAll('.key span')].map((one) => one.textContent),
])"""
GRAPH, SEQ2SEQ = (
    "model=graph data=karate",
    "model=seq2seq data=reverse trainer.max_epochs=2 trainer.devices=2",
)
SCORES = ("additive", "general", "scaled_dot")


def _runs() -> list[Run]:
    """Runs of two data sets, those of one with three scores and two seeds."""
    record = encode(AttentionRecord(np.full((1, 1, 2), 0.5, np.float32), ["q"], ["a", "b"]))
    records = {"example 1/attention": {0: record}}
    loss = {"validation/loss": [(0, 2.0), (1, 1.0)]}
    return [
        Run(
            GRAPH, curves={**loss, "validation/accuracy": [(0, 0.0), (1, 1.0)]}, setting=GRAPH, data="karate"
        ),
        *(
            Run(
                f"seed={seed} {SEQ2SEQ} scoring={score}",
                curves={**loss, "validation/error": [(0, 1.0), (1, 0.5)]},
                records=records,
                setting=f"{SEQ2SEQ} scoring={score}",
                data="reverse",
            )
            for score in SCORES
            for seed in (1, 2)
        ),
    ]


def test_runs_are_named_by_the_options_that_the_others_of_a_chart_do_not_share(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading("title"), _runs()), encoding="utf-8")
    browser.open(path.as_uri())
    assert {title: names for title, *names in browser.run(KEYS)} == {
        "loss": [f"{GRAPH} 1.000", *(f"{SEQ2SEQ} scoring={score} 1.000 1.000" for score in SCORES)],
        "accuracy": [f"{GRAPH} 1.000"],
        "error": [f"scoring={score} 0.5000 0.5000" for score in SCORES],
    }
    called = browser.run("[...document.querySelectorAll('.called')].map((one) => one.textContent)")
    assert called == [f"seed={seed} scoring={score}" for seed in (1, 2) for score in SCORES]
    assert not browser.complaints()


def test_names_stay_whole_if_what_is_left_would_not_tell_them_apart(browser: Browser, tmp_path: Path) -> None:
    names = {"a b": "a b", "a": "a"}  # the second would be empty
    runs = [
        Run(name, curves={"validation/loss": [(0, 2.0), (1, 1.0)]}, setting=setting)
        for name, setting in names.items()
    ]
    path = tmp_path / "report.html"
    path.write_text(make_page(Heading("title"), runs), encoding="utf-8")
    browser.open(path.as_uri(), "document.querySelector('.chart') !== null")
    assert browser.run(KEYS) == [["loss", "a b 1.000", "a 1.000"]]
