"""Check that torchrun or srun has started the processes that a run is divided over."""

import os

import pytorch_lightning as pl

from attention_lab.errors import LabError
from attention_lab.interruption.ranks import (
    IN_TORCHRUN,
    SRUN_STEP,
    in_shell_of_srun,
    started_by_srun,
    started_processes,
)


def check_tasks_of_slurm() -> None:
    """Raise LabError if SLURM was told only the total number of tasks: Lightning needs that of each node."""
    tasks = os.environ.get("SLURM_NTASKS", "1")
    if _in_slurm() and started_by_srun() and tasks != "1" and "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise LabError(f"SLURM was given --ntasks={tasks}: give --ntasks-per-node instead")


def check_started_processes(trainer: pl.Trainer) -> None:
    """Check that a run uses all processes that torchrun or srun has started for it, and waits for no others.

    Raises:
        LabError: each process would train alone in the same folder, or wait for others that nobody starts.
    """
    started, used = started_processes(), trainer.world_size
    if started > 1 and used != started:
        launcher = "srun" if _in_slurm() else "torchrun"
        raise LabError(
            f"{launcher} has started {started} processes, but trainer.devices and trainer.num_nodes are for "
            f"{used}: add {_fitting(started)}"
        )
    if not _in_slurm():
        return
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if tasks != "1" and not started_by_srun() and not in_shell_of_srun():
        raise LabError(
            f"srun has started {tasks} processes, but in a job called {os.environ['SLURM_JOB_NAME']} each "
            "would train alone: add --job-name=train to srun"
        )
    if used > 1 and started_by_srun() and SRUN_STEP not in os.environ:
        raise LabError(
            f"this run has {used} processes, but without srun SLURM starts only this one: start it with "
            "srun python train.py ..."
        )


def _in_slurm() -> bool:
    """Whether SLURM, not torchrun, tells the processes which they are."""
    return "SLURM_NTASKS" in os.environ and IN_TORCHRUN not in os.environ


def _fitting(started: int) -> str:
    """The options with which a run uses all processes."""
    on_node = os.environ.get("SLURM_NTASKS_PER_NODE" if _in_slurm() else "LOCAL_WORLD_SIZE") or started
    nodes = started // int(on_node)
    return f"trainer.devices={on_node}" + (f" trainer.num_nodes={nodes}" if nodes > 1 else "")
