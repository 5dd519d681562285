"""Published tables with columns of ours: the files of a task, what is left to do, the numbers of a table."""

import json
from pathlib import Path

import pytest

from attention_lab.errors import LabError
from benchmarks.accuracy import __main__ as command
from benchmarks.accuracy.runs import Runs
from benchmarks.accuracy.tasks import TASKS, languages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two languages with 1,000 training words, one of them with test words, and one that has no such file."""
    names = ["arabic-train-medium", "arabic-train-high", "arabic-dev", "arabic-uncovered-test"]
    names += ["german-train-medium.tsv", "german-dev.tsv", "latin-train-high", "latin-dev", "README.md"]
    names += ["arabic-covered-test"]
    data = tmp_path / "data"
    data.mkdir()
    for name in names:
        (data / name).touch()
    return data


class Trainings:
    """Stands for `train.py`: writes what a run leaves behind, and keeps the arguments of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[list[str]] = []
        self.failing = ""
        monkeypatch.setattr(Runs, "_process", lambda runs, arguments, log: self.process(arguments, log))

    def process(self, arguments: list[str], log: Path) -> int:
        self.done.append(arguments)
        if self.failing and any(self.failing in argument for argument in arguments):
            return 1
        ensemble = "stage=test" in arguments
        seed = sum(int(one[5:]) for one in arguments if one.startswith("seed="))
        rate = 0.125 if ensemble else 0.1 * seed
        ends = {"test/sequence_error_rate_low": rate - 0.02, "test/sequence_error_rate_high": rate + 0.02}
        log.with_suffix("").mkdir(parents=True, exist_ok=True)
        metrics = {"test/sequence_error_rate": rate} | ends
        (log.with_suffix("") / "metrics.json").write_text(json.dumps(metrics))
        return 0


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    return Trainings(monkeypatch)


def _command(folder: Path, *more: str) -> int:
    output = str(folder.parent / "runs")
    kinds = () if "--kind" in more else ("--kind", "")
    return command.main(
        ["inflection", "--data", str(folder), "--output", output, "--jobs", "1", *more, *kinds]
    )


def test_files_of_inflection(folder: Path) -> None:
    arabic, german = languages(TASKS["inflection"], folder, "medium")
    assert (arabic.name, arabic.tested) == ("arabic", "test")
    names = {part: path.name for part, path in arabic.files.items()}
    assert names == {"train": "arabic-train-medium", "dev": "arabic-dev", "test": "arabic-uncovered-test"}
    assert (german.name, german.tested) == ("german", "dev")
    assert german.files["test"] == german.files["dev"] == folder / "german-dev.tsv"
    assert [one.name for one in languages(TASKS["inflection"], folder, "high")] == ["arabic", "latin"]


def test_files_of_g2p(tmp_path: Path) -> None:
    for name in ("bul_train.tsv", "bul_dev.tsv", "bul_test.tsv", "dut_dev.tsv"):
        (tmp_path / name).touch()
    (bulgarian,) = languages(TASKS["g2p"], tmp_path, "medium")
    assert bulgarian.files["test"].name == "bul_test.tsv"
    with pytest.raises(
        LabError, match="no language has a training and a development file, such as arabic-train"
    ):
        languages(TASKS["inflection"], tmp_path, "medium")


def test_every_seed_then_an_ensemble_and_nothing_twice(folder: Path, trainings: Trainings) -> None:
    assert _command(folder, "--seeds", "1", "2") == 0
    assert len(trainings.done) == 6
    together = [one for one in trainings.done if "stage=test" in one]
    assert len(together) == 2
    assert "arabic/1/checkpoints/last.ckpt" in str(together[0])
    assert "arabic/2/checkpoints/last.ckpt" in str(together[0])
    assert all("experiment=inflection" in one for one in trainings.done)
    trainings.done.clear()
    assert _command(folder, "--seeds", "1", "2") == 0
    assert trainings.done == []
    assert _command(folder, "--seeds", "1", "2", "3", "--languages", "german") == 0
    assert len(trainings.done) == 2  # the third seed, and an ensemble of three
    trainings.done.clear()
    assert _command(folder, "trainer.max_epochs=2", "--seeds", "1", "2") == 0
    assert len(trainings.done) == 6 and sum("trainer.max_epochs=2" in one for one in trainings.done) == 4


def test_the_table(folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command(folder, "--seeds", "1", "3") == 0
    printed = capsys.readouterr().out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if "|" in line]
    assert lines[0][-2:] == ["ours, one model (2 seeds)", "ours, ensemble"]
    # accuracies of 90 and 70; their standard deviation is 20 / sqrt(2)
    assert lines[2] == ["arabic", "test", "79.3", "77.5", "81.4", "80.0 ± 14.1", "87.5 (85.5 to 89.5)"]
    assert lines[3][:2] == ["german", "dev"]
    # the mean of both: its standard error is 10 / sqrt(2), the half interval 2 / sqrt(2)
    assert lines[4][0] == "**mean**" and lines[4][-2:] == ["80.0 ± 7.1", "87.5 (86.1 to 88.9)"]
    assert (folder.parent / "runs" / "table.md").read_text() == printed[:-1]


def test_the_table_of_what_is_finished(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(folder, "--seeds", "2", "--languages", "german") == 0
    trainings.done.clear()
    capsys.readouterr()
    assert _command(folder, "--seeds", "2", "--table") == 0
    assert trainings.done == []
    printed = capsys.readouterr().out
    assert "german" in printed and "| arabic" not in printed and "one model (seed 2)" in printed


def test_a_failed_run_is_named_and_tried_again(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    trainings.failing = "german"
    assert _command(folder, "--seeds", "1", "2") == 1
    captured = capsys.readouterr()
    assert "german/1 ended with status 1: see" in captured.err and "arabic" in captured.out
    trainings.failing = ""
    trainings.done.clear()
    assert _command(folder, "--seeds", "1", "2") == 0
    assert len(trainings.done) == 3


def test_bad_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command(folder, "--languages", "german", "greek") == 2
    assert f"--languages: greek not in {folder}" in capsys.readouterr().err
    assert _command(folder / "nowhere") == 2
    assert "nowhere: No such file or directory" in capsys.readouterr().err


def test_a_damaged_result_is_named(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(folder, "--seeds", "1", "--languages", "german") == 0
    (folder.parent / "runs" / "german" / "1" / "metrics.json").write_text("{")
    assert _command(folder, "--seeds", "1", "--table") == 2
    assert "delete" in capsys.readouterr().err


def test_models_of_several_kinds_and_one_ensemble(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ["--kind", "pooling=soft", "--kind", "pooling=monotonic task.ctc=0"]
    every = "trainer.max_epochs=2"  # an option of every run, not a third kind
    assert _command(folder, "--seeds", "1", "2", "--languages", "german", *kinds, every) == 0
    assert len(trainings.done) == 5 and sum(every in one for one in trainings.done) == 4
    assert sum({"pooling=monotonic", "task.ctc=0"} <= set(one) for one in trainings.done) == 2
    (together,) = (one for one in trainings.done if "stage=test" in one)
    listed = next(one for one in together if one.startswith("ckpt_path="))
    for name in ("pooling=soft_1", "pooling=soft_2", "pooling=monotonic_task.ctc=0_1"):
        assert f"german/{name}/checkpoints/last.ckpt" in listed
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert "ours, pooling=monotonic (2 seeds)" in lines[0][-3]
    assert [cell.strip() for cell in lines[2][-4:-1]] == ["85.0 ± 7.1", "85.0 ± 7.1", "87.5 (85.5 to 89.5)"]


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_kinds_of_its_own(name: str, tmp_path: Path, trainings: Trainings) -> None:
    for file in ("german-train-medium", "german-dev", "ger_train.tsv", "ger_dev.tsv"):
        (tmp_path / file).touch()
    assert command.main([name, "--data", str(tmp_path), "--output", str(tmp_path / "runs")]) == 0
    kinds = {
        "inflection": ["data.right_to_left=false", "data.right_to_left=true"],
        "g2p": ["pooling=monotonic", "pooling=soft"],
    }[name]
    trained = [
        next(one for one in done if one in kinds) for done in trainings.done if "stage=test" not in done
    ]
    assert sorted(trained) == sorted(kinds * 2)


def test_options_given_twice_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for twice in (
        ["--seeds", "1", "1"],
        ["--kind", "pooling=soft +task.x=1", "--kind", "pooling=soft task.x=1"],
    ):
        assert _command(folder, *twice) == 2
        assert "is given twice" in capsys.readouterr().err


def test_an_ensemble_of_other_models_is_not_shown(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(folder, "--seeds", "1", "2", "--languages", "german") == 0
    assert "87.5" in capsys.readouterr().out
    assert _command(folder, "--seeds", "1", "3", "--table", "--languages", "german") == 0
    assert "87.5" not in capsys.readouterr().out


def test_the_ensemble_takes_the_model_from_its_members(folder: Path, trainings: Trainings) -> None:
    more = ["model.dropout=0.1", "task.beam_size=2", "--languages", "german", "--seeds", "1", "2"]
    assert _command(folder, *more) == 0
    (together,) = (one for one in trainings.done if "stage=test" in one)
    assert "task.beam_size=2" in together and "model.dropout=0.1" not in together
    assert sum("model.dropout=0.1" in one for one in trainings.done) == 2


def test_kinds_with_the_same_first_option_are_told_apart(
    folder: Path, trainings: Trainings, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ["--kind", "pooling=soft model.dropout=0.1", "--kind", "pooling=soft model.dropout=0.2"]
    assert _command(folder, "--seeds", "1", "--languages", "german", *kinds) == 0
    header = capsys.readouterr().out.splitlines()[0]
    assert "model.dropout=0.1 (seed 1)" in header and "model.dropout=0.2 (seed 1)" in header
