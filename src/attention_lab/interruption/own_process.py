"""Jobs of a sweep that use several processes, each in a process of its own.

Lightning starts the other ranks by running the command line again. In a sweep that command line is
the whole sweep, and the ranks would train different settings; in a process of its own a job has a
command line of its own.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.overrides import quote
from attention_lab.errors import LabError, Stopped
from attention_lab.interruption.signals import OWNED_BY_SWEEP, started_by_srun
from attention_lab.runs.run_folder import METRICS, PRUNED, read_failure, read_metrics

RANK_VARIABLES = (
    *("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE", "PL_GLOBAL_SEED"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *(
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
    ),
)
"""Variables by which ranks find each other: those of this process are not those of the job."""
TORCHRUN_PREFIXES = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC_")
"""How the names of torchrun's other variables begin."""


def needs_own_process(config: DictConfig) -> bool:
    """Whether this is a job of a sweep with more than one process.

    Raises:
        LabError: it is for several nodes, on which nobody would start the other processes.
    """
    if HydraConfig.get().mode != RunMode.MULTIRUN:
        return False
    if int(config.trainer.num_nodes) > 1:
        raise LabError(
            f"trainer.num_nodes={config.trainer.num_nodes}: a job of a sweep runs on one node; "
            "start each run by itself with torchrun or srun (docs/guides/clusters.md)"
        )
    return str(config.trainer.devices) != "1"


def check_shared_folder() -> None:
    """Refuse a run whose processes, started by torchrun or srun, would each write into a folder of its own.

    Raises:
        LabError: its name has the time in it, which differs between them.
    """
    started = int(os.environ.get("WORLD_SIZE") or 1) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    started = max(started, int(os.environ["SLURM_NTASKS"]) if started_by_srun() else 1)
    named = OmegaConf.to_container(HydraConfig.get().run, resolve=False)
    if started > 1 and HydraConfig.get().mode == RunMode.RUN and "${now:" in str(named):
        raise LabError(
            f"the {started} processes of this run need one folder: add hydra.run.dir=logs/NAME to its command"
        )


def own_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables for a job whose ranks are none of those that the launcher of this process has made."""
    return {
        name: value
        for name, value in variables.items()
        if name not in RANK_VARIABLES and not name.startswith(TORCHRUN_PREFIXES)
    } | {OWNED_BY_SWEEP: "1"}


def _program() -> str:
    """The file that Hydra was started from: in a worker of a cluster, `sys.argv` names another."""
    sources = HydraConfig.get().runtime.config_sources
    (conf,) = (Path(one.path) for one in sources if one.provider == "main")
    return str(conf.parent / "train.py")


def run_in_own_process() -> float | None:
    """Run the job as a single run in the same folder; returns what the run would have returned.

    Raises:
        LabError: the run failed, and why.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    command = [sys.executable, _program(), *hydra.overrides.task]
    command += [f"hydra.run.dir={quote(str(folder))}", "hydra.mode=RUN"]
    command += [f"hydra.job.num={hydra.job.num}"]  # by which it knows that it is one of several
    with subprocess.Popen(command, env=own_environment(os.environ)) as process:
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # and wait until it has saved
            raise
    if status > 128:
        raise Stopped(status - 128)
    results = folder / METRICS
    if not status and (folder / PRUNED).is_file():
        return None
    if status or not results.is_file():
        raise LabError(read_failure(folder) or f"the run in {folder} failed with exit status {status}")
    return read_metrics(results).get("fit/best")
