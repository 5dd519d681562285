"""The table of trials on the console."""

import pytest
from rich.console import Console

optuna = pytest.importorskip("optuna")

from optuna.trial import TrialState  # noqa: E402

from attention_lab.search.report import _rank, print_trials  # noqa: E402


@pytest.mark.parametrize("width", [40, 80, 160])
def test_nothing_is_cut_on_a_narrow_console(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        "trial",
        "state",
        "validation token error rate",
        "lr",
        "embedding_size",
        "label_smoothing",
        "dropout",
    ]
    print_trials(
        Console(width=width),
        "a study",
        names,
        [["3", "complete", "0.7481", "0.003009", "128", "0.09098", "0.26"]],
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    if width >= 80:
        assert "0.003009" in "".join(lines) and "0.09098" in "".join(lines)
        assert "embedding_size" in "".join(lines) and "label_smoothing" in "".join(lines)


def test_names_with_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A study called `a[/b]` ended in a traceback."""
    print_trials(Console(width=80), "a[/b][bold]", ["trial", "state", "loss[/c]"], [["0", "failed", "", ""]])
    out = capsys.readouterr().out
    assert "a[/b][bold]" in out and "loss[/c]" in out


def test_a_thousand_trials_are_shown_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[str(number), "failed", "", "no memory"] for number in range(1002)]
    print_trials(Console(width=80), "a study", ["trial", "state", "loss"], rows)
    *_, before, last = capsys.readouterr().out.splitlines()
    assert before == "failed: trial 999: no memory"
    assert last == "and 2 trials more, in the file below"


@pytest.mark.parametrize("maximize", [False, True])
def test_the_best_complete_trials_come_first(maximize: bool) -> None:
    study = optuna.create_study()
    for value in (0.2, 0.1, 0.3, 0.1):
        study.add_trial(optuna.trial.create_trial(value=value))
    for value in (0.9, 0.0):  # what a pruned trial had reached does not count
        study.add_trial(optuna.trial.create_trial(value=value, state=TrialState.PRUNED))
    trials = study.trials[::-1]
    trials.sort(key=lambda trial: _rank(trial, maximize))
    assert [trial.number for trial in trials] == ([2, 0, 1, 3, 4, 5] if maximize else [1, 3, 0, 2, 4, 5])
