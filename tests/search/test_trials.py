"""The parts of a search, and what it does around its trials."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

optuna = pytest.importorskip("optuna")

from filelock import FileLock, Timeout  # noqa: E402
from optuna.exceptions import StorageInternalError  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.job_line import JOB_LINE  # noqa: E402
from attention_lab.search import trials  # noqa: E402
from attention_lab.search.space import Space  # noqa: E402
from attention_lab.search.study import Result  # noqa: E402
from attention_lab.search.trials import _make_part  # noqa: E402


def test_without_a_sampler_or_pruner_optuna_chooses() -> None:
    """An experiment file may have `pruner: null`, which ended in a traceback."""
    config = OmegaConf.create({"pruner": None, "sampler": {"_target_": "optuna.samplers.RandomSampler"}})
    assert _make_part("pruner", config.pruner, optuna.pruners.BasePruner) is None
    sampler = _make_part("sampler", config.sampler, optuna.samplers.BaseSampler)
    assert isinstance(sampler, optuna.samplers.RandomSampler)


@pytest.mark.parametrize("given", ["random", 3, ["random"], {}, {"seed": 1}])
def test_what_names_no_class_is_an_error(given: object) -> None:
    config = OmegaConf.create({"sampler": given})
    with pytest.raises(LabError, match=r"^sweep\.sampler=.*: give the class of a sampler of Optuna, or"):
        _make_part("sampler", config.sampler, optuna.samplers.BaseSampler)


def test_the_configuration_of_a_search_is_written_before_another_can_change_the_options(
    command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that lost, and ended, could replace the file of the other."""

    def write(path: Path, text: str) -> None:
        with pytest.raises(Timeout), FileLock(path.with_name("study.lock"), timeout=0):
            pass
        raise LabError(f"{path.name} is written")

    monkeypatch.setattr(trials, "write_atomically", write)
    assert command("sweep=optuna", "model=nw").err == "Error: multirun.yaml is written\n"


def test_the_line_of_a_trial_ends_when_the_database_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """It was printed once more after the error, and left unfinished."""

    def run_one(job: object) -> None:
        JOB_LINE.begin("0  x=1")
        raise StorageInternalError("gone")

    study: Any = SimpleNamespace(run_one=run_one)
    with pytest.raises(StorageInternalError):
        trials._run_trials(study, Space({}, {}, {}), lambda trial: Result("failed"), most_failures=3)
    assert capsys.readouterr().out == "0  x=1  failed\n"
    assert not JOB_LINE.unfinished
