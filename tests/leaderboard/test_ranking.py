"""Settings against the best: which are indistinguishable from it, and which are worse."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from folders import RATE, make_run

from attention_lab.leaderboard.ranking import Block, Shared, _resampled_rates, rank, summarize
from attention_lab.leaderboard.settings import (
    Setting,
    group_runs,
    varied_options,
)
from attention_lab.leaderboard.significance import compare
from attention_lab.leaderboard.tables import REPEATED, TWO_SEEDS, Section, tabulate
from attention_lab.runs.rates_by_example import RatesByExample, read_rates_by_example
from attention_lab.runs.run_folder import Job, read_job

METRIC = "test/accuracy"


def _cell(name: str, values: dict[int, float]) -> Setting:
    jobs = [
        Job(Path(f"{name}{seed}"), {}, {"scoring": name}, {}, {METRIC: value}, None, str(seed))
        for seed, value in values.items()
    ]
    return Setting({"scoring": name}, jobs)


def _rank(*found: Setting, largest: bool = True) -> Block:
    return rank(found, METRIC, largest, {})


GOOD = {1: 0.90, 2: 0.92, 3: 0.91}
NEAR = {1: 0.91, 2: 0.89, 3: 0.92}
BAD = {1: 0.50, 2: 0.521, 3: 0.511}


def test_each_setting_is_compared_with_the_best_and_p_counts_the_comparisons() -> None:
    block = _rank(_cell("bad", BAD), _cell("good", GOOD), _cell("near", NEAR))
    assert [row.setting.options["scoring"] for row in block.rows] == ["good", "near", "bad"]
    assert [row.verdict for row in block.rows] == ["best", "tied", "worse"]
    expected = compare([BAD[seed] - GOOD[seed] for seed in (1, 2, 3)])
    assert block.rows[2].versus == expected
    assert block.rows[2].p == pytest.approx(2 * expected.p)
    assert block.rows[1].p <= 1
    assert summarize(block) == [
        "best by accuracy (highest): scoring=good",
        "not distinguishable from it at 95%: scoring=near",
        "worse: scoring=bad",
    ]
    assert summarize(replace(block, options={"size": 3}))[2] == "size=3: worse: scoring=bad"


@pytest.mark.parametrize(("count", "end"), [(10, "s8, scoring=s9"), (12, "s8, scoring=s9 and 2 more")])
def test_of_many_settings_a_statement_names_the_first(count: int, end: str) -> None:
    several = [_cell(f"s{at}", {seed: value - at for seed, value in BAD.items()}) for at in range(count)]
    (worse,) = summarize(_rank(_cell("good", GOOD), *several))[1:]
    assert worse == "worse: " + ", ".join(f"scoring=s{at}" for at in range(8)) + f", scoring={end}"


def test_where_less_is_better_the_order_turns() -> None:
    block = _rank(_cell("good", GOOD), _cell("bad", BAD), largest=False)
    assert [row.setting.options["scoring"] for row in block.rows] == ["bad", "good"]
    assert "lowest" in summarize(block)[0]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({7: 0.8, 8: 0.7}, "no common seed"),
        ({1: 0.8}, "needs two common seeds"),
        ({1: math.nan, 2: 0.5}, "diverged"),
        ({}, "no value"),
    ],
)
def test_what_cannot_be_compared_says_why(values: dict[int, float], why: str) -> None:
    block = _rank(_cell("good", GOOD), _cell("other", values))
    assert [row.verdict for row in block.rows] == ["best", "open"]
    assert summarize(block)[-1] == f"not compared ({why}): scoring=other"
    header, (_, other) = tabulate(Section("", ["scoring"], [METRIC], [block]))
    assert other[header.index("against the best")] == why and "p" not in header


def test_seeds_that_change_nothing_say_so() -> None:
    block = _rank(_cell("good", {1: 0.9, 2: 0.9}), _cell("bad", {1: 0.8, 2: 0.8}))
    section = Section("", ["scoring"], [METRIC], [block])
    assert section.summaries == [
        "best by accuracy (highest): scoring=good",
        "worse: scoring=bad",
        "all seeds give the same difference, so this holds only for these data",
    ]
    assert len(summarize(_rank(_cell("good", GOOD), _cell("bad", {1: 0.5, 2: 0.5, 3: 0.5})))) == 2


def test_differences_that_only_rounding_tells_apart_are_the_same() -> None:
    """Metrics are float32: 0.93 - 0.92 and 0.91 - 0.90 differ in the eighth digit."""
    values = ({1: 0.93, 2: 0.91}, {1: 0.92, 2: 0.90})
    rounded = [{seed: float(np.float32(at)) for seed, at in one.items()} for one in values]
    block = _rank(_cell("good", rounded[0]), _cell("bad", rounded[1]))
    assert summarize(block)[-1] == "all seeds give the same difference, so this holds only for these data"
    versus = block.rows[1].versus
    assert versus is not None and versus.low == versus.high == pytest.approx(-0.01, abs=1e-7)
    rounded[0][1] += 1e-6
    assert len(summarize(_rank(_cell("good", rounded[0]), _cell("bad", rounded[1])))) == 2


@pytest.mark.parametrize("seeds", [2, 3])
def test_two_seeds_are_few(seeds: int) -> None:
    good, bad = (dict(list(values.items())[:seeds]) for values in (GOOD, BAD))
    section = Section("", ["scoring"], [METRIC], [_rank(_cell("good", good), _cell("bad", bad))])
    assert (TWO_SEEDS in section.summaries) == (seeds == 2)


def test_runs_that_repeat_a_seed_are_counted_in_words() -> None:
    """The title counts runs, and n seeds."""
    good = _cell("good", GOOD)
    assert Section("", ["scoring"], [METRIC], [_rank(good)]).summaries == []
    good = Setting(good.options, [*good.jobs, *good.jobs[:2]])
    (line,) = Section("", ["scoring"], [METRIC], [_rank(good)]).summaries
    assert line.startswith(f"{REPEATED}: 2; n counts each seed once")


def test_where_all_diverged_there_is_no_best() -> None:
    assert summarize(_rank(_cell("a", {1: math.nan}), _cell("b", {}))) == ["nothing to compare"]


def test_of_many_common_seeds_the_first_five_are_named() -> None:
    assert Shared("12345", 0.0, 0.0).named == "seeds 1, 2, 3, 4, 5"
    assert Shared("123456", 0.0, 0.0).named == "seeds 1, 2, 3, 4, 5, ..."


def test_only_common_seeds_are_paired_and_a_seed_that_ran_twice_is_one() -> None:
    cell = _cell("twice", {1: 0.8, 2: 0.7, 3: 0.75, 4: 0.99})
    again = _cell("twice", {1: 0.6})
    both = Setting(cell.options, [*cell.jobs, *again.jobs])
    found = both.estimate(METRIC)
    assert found.n == 4 and both.values(METRIC)["1"] == pytest.approx(0.7)
    block = _rank(_cell("good", GOOD), both)
    (_, other) = block.rows
    assert other.versus == compare([0.7 - 0.90, 0.7 - 0.92, 0.75 - 0.91])
    assert other.shared == (["1", "2", "3"], pytest.approx(0.71667, abs=1e-5), pytest.approx(0.91))
    # the means of the table are over other seeds than the difference: both places say so
    both_have = (
        "scoring=twice compared over seeds 1, 2, 3, which both have: 0.7167, against 0.9100 for the best"
    )
    assert both_have in summarize(block)
    _, lines = tabulate(Section("", ["scoring"], [METRIC], [block]))
    assert lines[1][4].startswith("-0.1933 (") and lines[1][4].endswith(") on seeds 1, 2, 3")
    assert _rank(_cell("good", GOOD), _cell("bad", BAD)).rows[1].shared is None
    (_, fewer) = _rank(_cell("good", GOOD), _cell("fewer", {1: 0.5, 2: 0.521})).rows
    assert fewer.shared == (["1", "2"], pytest.approx(0.5105), pytest.approx(0.91))
    assert other.shared is not None
    assert other.shared._replace(seeds=[*"123456"]).named == "seeds 1, 2, 3, 4, 5, ..."


@pytest.mark.parametrize("largest", [True, False])
def test_a_setting_that_is_better_on_the_common_seeds_is_not_worse(largest: bool) -> None:
    sign = 1 if largest else -1
    best = {1: 0.90, 2: 0.91, 3: 0.92, 4: 0.99, 5: 0.99}
    other = {1: 0.93, 2: 0.94, 3: 0.9505}
    cells = [
        _cell(name, {seed: sign * at for seed, at in values.items()})
        for name, values in (("best", best), ("other", other))
    ]
    block = _rank(*cells, largest=largest)
    assert [row.verdict for row in block.rows] == ["best", "open"]
    assert block.rows[1].versus is not None and block.rows[1].p < 0.001
    assert summarize(block)[1:] == [
        "not compared (better than the best on the seeds that both have): scoring=other",
        f"scoring=other compared over seeds 1, 2, 3, which both have: {sign * 0.9402:.4f}, "
        f"against {sign * 0.91:.4f} for the best",
    ]
    _, lines = tabulate(Section("", ["scoring"], [METRIC], [block]))
    assert "on seeds 1, 2, 3" in lines[1][4] and lines[1][5] == "< 0.001"


def test_the_truly_best_setting_is_kept_19_times_in_20() -> None:
    """Four equally good settings: calling the first one worse is the error that counts."""
    generator, lost = np.random.default_rng(0), 0
    for _ in range(300):
        values = generator.normal(0.5, 0.1, (4, 3))
        block = _rank(*(_cell(str(i), dict(enumerate(row, start=1))) for i, row in enumerate(values)))
        lost += "0" in [row.setting.options["scoring"] for row in block.named("worse")]
    assert lost / 300 <= 0.05


def _jobs(folder: Path, edits: dict[str, list[list[int]]]) -> list[Job]:
    """Runs with predictions: for each score, for each seed, the edits of each example."""
    jobs = []
    for score, seeds in edits.items():
        for seed, one in enumerate(seeds, start=1):
            metrics = {RATE: float(np.float32(sum(one) / (4 * len(one))))}
            path = folder / f"{score}{seed}"
            jobs.append(read_job(make_run(path, metrics, seed=seed, choices={"scoring": score}, edits=one)))
    return jobs


@pytest.mark.parametrize("seeds", [1, 3])
def test_predictions_let_one_seed_be_compared(seeds: int, tmp_path: Path) -> None:
    few, many = [0, 1] * 40, [1, 2] * 40
    jobs = _jobs(tmp_path, {"good": [few] * seeds, "bad": [many] * seeds})
    block = rank(group_runs(jobs, varied_options(jobs)), RATE, False, {})
    assert [row.verdict for row in block.rows] == ["best", "worse"]
    versus = block.rows[1].versus
    assert versus is not None and versus.examples
    one = ["with one seed, this holds only for these trained models"] if seeds == 1 else []
    assert summarize(block)[1:] == ["worse: scoring=bad", *one]
    assert (versus.low, versus.high) == pytest.approx((0.25, 0.25))  # one edit of four more, everywhere


def test_other_test_examples_are_not_compared(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, {"good": [[0, 1, 0, 0]], "bad": [[1, 2, 1, 1, 1]]})
    block = rank(group_runs(jobs, varied_options(jobs)), RATE, False, {})
    assert block.rows[1].why == "tested on different examples than the best"


def test_the_interval_of_a_difference_is_cut_to_possible_values() -> None:
    versus = _rank(_cell("good", {1: 0.9, 2: 0.2}), _cell("bad", {1: 0.1, 2: 0.9})).rows[1].versus
    assert versus is not None and (versus.low, versus.high) == (-1, 1)


def test_only_runs_with_the_same_examples_share_their_resamples() -> None:
    first = RatesByExample(b"a", np.arange(9), np.ones(9))
    drawn = _resampled_rates({1: first, 2: first, 3: first._replace(sources=b"b")})
    assert (drawn[1] == drawn[2]).all() and (drawn[1] != drawn[3]).any()


def test_a_seed_without_predictions_leaves_the_comparison_to_the_seeds(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, {"good": [[0, 1], [1, 1]], "bad": [[2, 3], [2, 2]]})
    (tmp_path / "bad2" / "predictions.tsv").unlink()
    versus = rank(group_runs(jobs, varied_options(jobs)), RATE, False, {}).rows[1].versus
    assert versus is not None and not versus.examples and versus.n == 2


def test_a_table_is_used_only_if_it_gives_the_rate_that_was_reported(tmp_path: Path) -> None:
    edits = [1, 0, 2, 0]
    metrics = {RATE: 3 / 16, "test/sequence_error_rate": 0.5}
    job = read_job(make_run(tmp_path / "words", metrics, edits=edits))
    found = read_rates_by_example(job, RATE)
    assert found is not None
    assert found.numerators.tolist() == edits and found.denominators.tolist() == [4] * 4
    wrong = read_rates_by_example(job, "test/sequence_error_rate")
    assert wrong is not None and wrong.numerators.tolist() == [1, 0, 1, 0]
    assert read_rates_by_example(job, "test/loss") is None
    # as characters the references have 7 symbols each
    letters = read_rates_by_example(read_job(make_run(tmp_path / "a", {RATE: 3 / 28}, edits=edits)), RATE)
    assert letters is not None and letters.denominators.tolist() == [7] * 4
    assert read_rates_by_example(read_job(make_run(tmp_path / "old", {RATE: 0.9}, edits=edits)), RATE) is None


@pytest.mark.parametrize(
    ("edits", "accuracy", "right", "classes"),
    [([1, 0, 1, 1], 1 / 4, [0, 1, 0, 0], 1), ([1, 0, 4, 1], 10 / 16, [3, 4, 0, 3], 4)],
)
def test_the_examples_behind_an_accuracy(
    edits: list[int], accuracy: float, right: list[int], classes: int, tmp_path: Path
) -> None:
    job = read_job(make_run(tmp_path / "run", {"test/accuracy": accuracy}, edits=edits))
    found = read_rates_by_example(job, "test/accuracy")
    assert found is not None
    assert found.numerators.tolist() == right and found.denominators.tolist() == [classes] * 4


@pytest.mark.parametrize(
    "text",
    ["", "source\toutput\n", "source\toutput\treference\tedits\n", "\x00\n\n"]
    + [f"source\toutput\treference\tedits\na\tb\tc\t{edits}\n" for edits in ("many", "9" * 40, "1\t2")],
)
def test_a_damaged_table_is_no_table(text: str, tmp_path: Path) -> None:
    job = read_job(make_run(tmp_path / "run", {RATE: 0.5}, edits=[1]))
    (job.folder / "predictions.tsv").write_text(text)
    assert read_rates_by_example(job, RATE) is None


def test_the_best_of_very_many_settings_is_better_than_those_that_are_far_worse(tmp_path: Path) -> None:
    """Even if no resample of the examples puts them first."""
    few, many = [0, 1] * 20, [1, 2, 3, 4] * 10
    jobs = _jobs(tmp_path, {"good": [few], "bad": [many]})
    found = group_runs(jobs, varied_options(jobs))
    others = [
        Setting({"scoring": str(n)}, [replace(jobs[1], choices={"scoring": str(n)})]) for n in range(300)
    ]
    block = rank([found[0], *others], RATE, False, {})
    assert [row.verdict for row in block.rows] == ["best"] + ["worse"] * 300
