"""A run uses the processes that torchrun or srun has started for it: no fewer, and no others."""

import os
from types import SimpleNamespace

import pytest

from attention_lab.errors import LabError
from attention_lab.experiment.trainer.started_processes import check_started_processes, check_tasks_of_slurm

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
JOB = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_NAME": "job.sh"}
SRUN = {**JOB, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
NAMES = {*TORCHRUN, *SRUN, "RANK", "SLURM_PROCID"}
INTERACTIVE = {**SRUN, "SLURM_JOB_NAME": "interactive"}


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_a_shell_that_srun_has_started_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun --pty bash` connects only the first task to the terminal."""
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    for job in (SRUN, INTERACTIVE):
        _check(job, 1, monkeypatch)


def _check(variables: dict[str, str], processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_tasks_of_slurm()
    check_started_processes(SimpleNamespace(world_size=processes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variables", "processes"),
    [
        ({}, 1),
        ({}, 2),  # Lightning starts the second
        (TORCHRUN, 4),
        (SRUN, 2),
        ({**SRUN, **TORCHRUN}, 4),  # torchrun, once on each node of a SLURM job
        (JOB, 1),  # without srun: one process
        ({**SRUN, "SLURM_NTASKS": "1", "SLURM_NTASKS_PER_NODE": "1", "SLURM_STEP_NUM_TASKS": "1"}, 1),
        ({**INTERACTIVE, "SLURM_STEP_NUM_TASKS": "1"}, 2),  # as in a shell: Lightning starts the second
    ],
)
def test_what_fits(variables: dict[str, str], processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(variables, processes, monkeypatch)


@pytest.mark.parametrize(
    ("variables", "processes", "message"),
    [
        (
            TORCHRUN,
            1,
            "torchrun has started 4 processes, .* for 1: add trainer.devices=2 trainer.num_nodes=2$",
        ),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}, 1, "for 1: add trainer.devices=4$"),
        (SRUN, 1, "srun has started 2 processes, .* for 1: add trainer.devices=2$"),
        ({**SRUN, "SLURM_NTASKS_PER_NODE": "1"}, 1, "add trainer.devices=1 trainer.num_nodes=2$"),
        (
            INTERACTIVE,
            1,
            "srun has started 2 processes, but in a job called interactive each would train alone",
        ),
        (INTERACTIVE, 2, "add --job-name=train to srun$"),
        (JOB, 2, "this run has 2 processes, but without srun SLURM starts only this one"),
    ],
)
def test_what_does_not_fit(
    variables: dict[str, str], processes: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabError, match=message):
        _check(variables, processes, monkeypatch)


def test_the_number_of_tasks_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {name: value for name, value in SRUN.items() if name != "SLURM_NTASKS_PER_NODE"}
    with pytest.raises(LabError, match="SLURM was given --ntasks=2: give --ntasks-per-node instead"):
        _check(tasks, 2, monkeypatch)
