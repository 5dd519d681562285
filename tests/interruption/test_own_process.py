"""Processes started by torchrun, srun and sweeps: their folder, environment and errors."""

import pytest
import torch
from hydra.types import RunMode
from omegaconf import OmegaConf

from attention_lab.commandline import choice_checks
from attention_lab.errors import LabError
from attention_lab.interruption import own_process, signals

TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "somewhere",
    "TORCHELASTIC_RUN_ID": "none",
}
SLURM = {
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
}


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes a launcher's variables from the environment."""
    for name in (*TORCHRUN, *SLURM, "NODE_RANK", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_job_does_not_inherit_the_rank_variables_of_its_launcher() -> None:
    found = own_process.own_environment({**TORCHRUN, **SLURM, "PATH": "/bin", "OMP_NUM_THREADS": "1"})
    assert found == {
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        signals.OWNED_BY_SWEEP: "1",
    }


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"NODE_RANK": "1", "LOCAL_RANK": "0"}, False),
        (TORCHRUN, False),
        ({**TORCHRUN, "RANK": "0"}, True),
        (SLURM, False),
        ({**SLURM, "SLURM_PROCID": "0"}, True),
        ({**SLURM, "SLURM_JOB_NAME": "interactive"}, True),
    ],
)
def test_exactly_one_process_of_a_run_is_rank_zero(
    variables: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert signals.is_rank_zero() == first


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize("variables", [{**TORCHRUN, "RANK": "0"}, {**SLURM, "SLURM_PROCID": "0"}])
def test_processes_started_by_torchrun_or_srun_need_one_folder(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hydra = OmegaConf.create({"run": {"dir": "logs/${now:%H}"}, "mode": RunMode.RUN})
    monkeypatch.setattr(own_process.HydraConfig, "get", lambda: hydra)
    own_process.check_shared_folder()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        LabError, match=r"the 2 processes of this run need one folder: add hydra\.run\.dir=logs/NAME"
    ):
        own_process.check_shared_folder()
    hydra.run.dir = "logs/mine"
    own_process.check_shared_folder()


@pytest.mark.long
def test_a_job_of_a_sweep_runs_on_one_node(command) -> None:
    done = command("-m", "model=nw", "trainer=ddp", "trainer.num_nodes=2", "seed=1,2")
    assert done.status == 1
    assert "2 of 2 jobs failed: " in done.err
    assert "a job of a sweep runs on one node; start each run separately with torchrun" in done.err


def test_sharding_needs_gpus(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = command("model=multihead", "trainer=fsdp")
    assert done.status == 1
    assert done.err == (
        "Error: trainer=fsdp needs GPUs, but this machine has none: choose trainer=ddp, or add "
        "trainer.accelerator=cpu trainer.devices=2 to try it\n"
    )


@pytest.mark.parametrize(
    ("choice", "extra"),
    [
        ("sweep=optuna", "search"),
        ("launcher=slurm", "slurm"),
        ("launcher=ray", "ray"),
        ("launcher=joblib", "joblib"),
    ],
)
def test_a_choice_whose_packages_are_missing(
    choice: str, extra: str, command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_checks, "find_spec", lambda name: None)
    done = command("model=nw", choice)
    assert done.status == 1
    assert done.err == f"Error: {choice} needs additional packages: pip install -e '.[{extra}]'\n"
