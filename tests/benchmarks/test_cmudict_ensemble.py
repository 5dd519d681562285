"""The benchmark that trains several models at the same time and tests them as an ensemble."""

import sys
from pathlib import Path

import pytest

from benchmarks import cmudict_ensemble


@pytest.fixture
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option is a line of Python to run, instead of an option of train.py."""
    monkeypatch.setattr(
        cmudict_ensemble,
        "training_command",
        lambda *options: [sys.executable, "-c", next(one for one in options if not one.startswith("t"))],
    )


@pytest.mark.usefixtures("_no_training")
def test_a_model_that_fails_is_named_and_its_output_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {"good": ["print('learned')"], "bad": ["raise SystemExit('no such data')"]}
    assert cmudict_ensemble.train(runs, tmp_path) == ["bad"]
    assert capsys.readouterr().out == "no such data\n\n"
    assert (tmp_path / "good.txt").read_text() == "learned\n"


@pytest.mark.usefixtures("_no_training")
def test_models_train_at_the_same_time(tmp_path: Path) -> None:
    wait = (
        "import pathlib, time\n"
        "pathlib.Path({own!r}).touch()\n"
        "while not pathlib.Path({other!r}).exists(): time.sleep(0.01)"
    )
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    runs = {"first": [wait.format(own=first, other=second)], "second": [wait.format(own=second, other=first)]}
    assert cmudict_ensemble.train(runs, tmp_path) == []


@pytest.mark.slow
def test_the_ensemble_is_tested(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cmudict_ensemble.main(["--device", "cpu", "--quick", "--output", str(tmp_path)]) == 0
    assert "An ensemble of 5 checkpoints" in capfd.readouterr().out
    assert (tmp_path / "ensemble" / "metrics.json").exists()
