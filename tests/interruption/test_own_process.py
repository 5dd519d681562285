"""Jobs of a sweep that run in processes of their own: their environment and errors."""

import pytest
import torch
from launcher_variables import SLURM, TORCHRUN

from attention_lab.commandline import choice_checks
from attention_lab.interruption import own_process
from attention_lab.interruption.ranks import OWNED_BY_SWEEP


def test_a_job_does_not_inherit_the_rank_variables_of_its_launcher() -> None:
    found = own_process.own_environment({**TORCHRUN, **SLURM, "PATH": "/bin", "OMP_NUM_THREADS": "1"})
    assert found == {
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        OWNED_BY_SWEEP: "1",
    }


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
