"""Searches with options that are wrong, or seldom meant."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

optuna = pytest.importorskip("optuna")

from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from studies import join_study  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.search import trials  # noqa: E402
from attention_lab.search.space import Space  # noqa: E402
from attention_lab.search.study import Result  # noqa: E402


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("model.dropout=2: choose a fraction from 0 to 1", True),
        ("model.dropout is not an option of Mlp: leave it out", True),
        ("model.dropout=2 needs model.layers=3", False),  # which other trials may not have
        ("model.dropout_rate=2: choose a fraction", False),
        ("the loss is nan: lower optimizer.lr", False),
    ],
)
def test_a_search_ends_at_an_error_in_an_option_of_all_trials(
    reason: str, ends: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    study: Any = SimpleNamespace(run_one=lambda job: Result("failed", reason=reason), metric="loss")
    parse = OverridesParser.create().parse_override
    space = Space(
        {"model.dropout": parse("model.dropout=2")}, {"model.layers": parse("model.layers=1,3")}, {}
    )
    with pytest.raises(LabError, match=r"^model\.dropout") if ends else nullcontext():
        assert trials._run_trials(study, space, None, most_failures=2) == [reason] * 2
    said = capsys.readouterr().out
    assert said.count(reason) == (0 if ends else 2)
    assert said.count("failed") == (1 if ends else 2)


@pytest.mark.parametrize(
    ("first", "corrected"),
    [(Result("failed", reason="no such file"), True), (Result("complete", 1.0), False)],
)
def test_options_may_be_corrected_while_all_trials_have_failed(
    first: Result, corrected: bool, tmp_path: Path
) -> None:
    study = join_study(tmp_path)
    study.check_options({"x": "x=range(0,9)", "file": "file=a"})
    study.run_one(lambda trial: first)
    with nullcontext() if corrected else pytest.raises(LabError, match="started with file=a"):
        study.check_options({"x": "x=range(0,9)", "file": "file=b"})
        study.check_options({"x": "x=range(0,9)", "file": "file=b"})
    with pytest.raises(LabError, match="started with x="):  # Optuna does not change a range
        study.check_options({"x": "x=1,2", "file": "file=b" if corrected else "file=a"})


def test_of_two_processes_that_correct_options_at_once_the_first_ends(tmp_path: Path) -> None:
    """It would run its trials with other options than those of the study."""
    failed = join_study(tmp_path)
    failed.check_options({"file": "file=a"})
    failed.run_one(lambda trial: Result("failed", reason="no such file"))
    first, second = join_study(tmp_path), join_study(tmp_path)
    first.check_options({"file": "file=b"})
    second.check_options({"file": "file=c"})
    with pytest.raises(LabError, match="study was started with file=c, not with file=b: use the same"):
        first.run_one(lambda trial: pytest.fail("the trial was run"))
    assert second.run_one(lambda trial: Result("complete", 1.0)) == Result("complete", 1.0)


@pytest.mark.long
def test_what_a_search_does_with_seeds_and_resume(command: Any) -> None:
    small = [
        "sweep=optuna",
        "model=nw",
        "trainer.max_epochs=1",
        "pictures=0",
        "logger=none",
        "sweep.trials=1",
    ]
    done = command(*small, "resume=auto")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("Error: resume=auto: leave it out: a search continues when its command is")
    done = command(*small, "seed=1,2")
    assert done.status == 0
    assert done.err.startswith("Warning: seed=1,2 is searched like other options, so that the best trial may")
    assert done.err.count("\n") == 1
