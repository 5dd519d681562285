"""Launch each multi-process job of a sweep as a separate process.

Lightning starts the other ranks by running the command line again. In a sweep, that command line would start
the entire sweep, and the ranks would train different settings. A separate process has a command line for its
job alone.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from attention_lab.commandline.overrides import quote
from attention_lab.errors import LabError, Stopped
from attention_lab.files.run_files import METRICS, PRUNED
from attention_lab.interruption.ranks import OWNED_BY_SWEEP
from attention_lab.runs.recorded_failures import read_failure
from attention_lab.runs.run_folder import read_metrics

RANK_VARIABLES = (
    *("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE", "PL_GLOBAL_SEED"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
)
"""Environment variables by which ranks find each other; a job must not inherit those of this process."""
TORCHRUN_PREFIXES = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC_")
"""Prefixes of torchrun's other variables."""


def needs_own_process(config: DictConfig) -> bool:
    """Whether this is a job of a sweep that uses more than one process.

    Raises:
        LabError: it needs several nodes, but nothing would start its processes on the other nodes.
    """
    if HydraConfig.get().mode != RunMode.MULTIRUN:
        return False
    if int(config.trainer.num_nodes) > 1:
        raise LabError(
            f"trainer.num_nodes={config.trainer.num_nodes}: a job of a sweep runs on one node; "
            "start each run separately with torchrun or srun (docs/guides/clusters.md)"
        )
    return str(config.trainer.devices) != "1"


def own_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job's process, without the rank variables that this process has inherited."""
    return {
        name: value
        for name, value in variables.items()
        if name not in RANK_VARIABLES and not name.startswith(TORCHRUN_PREFIXES)
    } | {OWNED_BY_SWEEP: "1"}


def _program() -> str:
    """The script that started Hydra; in a cluster's worker, `sys.argv` names a different one."""
    sources = HydraConfig.get().runtime.config_sources
    (conf,) = (Path(source.path) for source in sources if source.provider == "main")
    return str(conf.parent / "train.py")


def run_in_own_process() -> float | None:
    """Run the job as a single run in the same folder; returns its best monitored value.

    Raises:
        LabError: the run failed; the message says why.
        Stopped: a signal stopped the run.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    command = [sys.executable, _program(), *hydra.overrides.task]
    command += [f"hydra.run.dir={quote(str(folder))}", "hydra.mode=RUN"]
    command += [f"hydra.job.num={hydra.job.num}"]  # tells it that it is part of a sweep
    with subprocess.Popen(command, env=own_environment(os.environ)) as process:
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # leaving the `with` block waits until it has saved
            raise
    if status > 128:
        raise Stopped(status - 128)
    results = folder / METRICS
    if not status and (folder / PRUNED).is_file():
        return None
    if status or not results.is_file():
        raise LabError(read_failure(folder) or f"the run in {folder} failed with exit status {status}")
    return read_metrics(results).get("fit/best")
