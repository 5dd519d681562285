"""Runs grouped into settings: the options that tell them apart, and the direction and range of a metric."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from attention_lab.leaderboard.settings import (
    Setting,
    distinguishing_options,
    group_runs,
    higher_is_better,
    varied_options,
)
from attention_lab.runs.run_folder import Job


def test_the_direction_is_that_of_the_monitor_or_of_the_name() -> None:
    job = Job(Path(), {}, {}, {"monitor": {"metric": "validation/mystery", "mode": "max"}}, {}, None)
    assert higher_is_better("test/mystery", [job]) and not higher_is_better("test/other", [job])
    assert higher_is_better("validation/mystery", [job])  # a picture or a ranking may show it
    odd = replace(job, config={"monitor": {"metric": "validation/accuracy", "mode": "best"}})
    assert higher_is_better("test/accuracy", [odd])
    for name in ("test/accuracy", "test/alignment_mass/head_2", "fit/steps_per_second"):
        assert higher_is_better(name, [])
    for name in ("test/mse", "test/loss", "test/token_error_rate", "test/perplexity", "fit/seconds"):
        assert not higher_is_better(name, [])


@pytest.mark.parametrize(
    ("metric", "interval"),
    [
        ("test/alignment_error_rate", (0, 1)),
        ("test/alignment_error_rate/head_2", (0, 1)),
        ("test/monotonicity", (0, 1)),
        ("test/alignment_mass", (0, math.inf)),
        ("test/window_error", (0, math.inf)),
        ("test/chrf", (0, 100)),
        ("test/loss", (-math.inf, math.inf)),
    ],
)
def test_an_interval_has_only_possible_values(metric: str, interval: tuple[float, float]) -> None:
    job = Job(Path(), {}, {}, {}, {}, None)
    found = Setting({}, [replace(job, metrics={metric: at}, seed=str(at)) for at in (0.0, 1.0)])
    low, high = 0.5 - 12.706 / 2, 0.5 + 12.706 / 2  # by Student's t with one degree of freedom
    wanted = max(low, interval[0]), min(high, interval[1])
    assert found.interval(metric) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize(("known", "expected"), [(True, []), (False, ["optimizer.lr"])])
def test_a_value_written_in_two_ways_is_one(known: bool, expected: list[str]) -> None:
    """What was typed counts only for a run that stopped before its configuration was known."""
    config = {"optimizer": {"lr": 0.001}} if known else {}
    jobs = [Job(Path(text), {"optimizer.lr": text}, {}, config, {}, None) for text in ("1e-3", "0.001")]
    assert varied_options(jobs) == expected


def test_a_number_without_and_with_a_point_is_one_value() -> None:
    """As in model.dropout=0 beside a default of 0.0; true is not the number 1, nor is "1"."""
    config = {"task": {"a": 0.0}, "model": {"b": 1}}
    same = {"task": {"a": 0}, "model": {"b": 1.0}}
    jobs = [Job(Path(str(n)), {}, {}, one, {}, None, str(n)) for n, one in enumerate((config, same))]
    assert varied_options(jobs) == [] and len(group_runs(jobs, ["task.a", "model.b"])) == 1
    for other in (True, "one", 1.5, None):
        different = replace(jobs[1], config={**same, "model": {"b": other}})
        assert varied_options([jobs[0], different]) == ["model.b"]
    batches = [replace(jobs[0], config={"trainer": {"limit_train_batches": some}}) for some in (1, 1.0)]
    assert varied_options(batches) == ["trainer.limit_train_batches"]  # one batch, and all


def test_settings_are_named_by_what_tells_them_apart() -> None:
    options = [("a", 1, None), ("b", 1, None), ("b", 2, None)]
    found = [Setting({"scoring": a, "lr": b, "same": c}, []) for a, b, c in options]
    assert distinguishing_options(found) == ["scoring", "lr"]
    # `scoring` alone would tell these apart, but it need not be the reason for a difference
    assert distinguishing_options(found[::2]) == ["scoring", "lr"]
    assert distinguishing_options(found[:2]) == ["scoring"]
    assert found[0].describe(["same", "lr"]) == "lr=1 same=null"
    assert distinguishing_options(found[:1]) == [] and found[0].describe([]) == "all runs"
