"""A SLURM cluster of two nodes on this machine, if SLURM is installed (Debian's package slurm-wlm)."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from two_processes import free_port

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "sinfo")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs=8 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def is_installed() -> bool:
    """Whether SLURM's programs can be found."""
    return all(shutil.which(program) for program in PROGRAMS)


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Start a cluster with its files in a folder; gives the environment in which its commands are run."""
    ports = {name: str(free_port()) for name in ("port", "port1", "port2")}
    (folder / "state").mkdir(parents=True)
    file = folder / "slurm.conf"
    user = os.environ.get("USER") or Path.home().owner()
    file.write_text(CONFIGURATION.format(host=socket.gethostname(), user=user, folder=folder, **ports))
    environment = os.environ | {"SLURM_CONF": str(file)}
    daemons = [["slurmctld", "-D"], ["slurmd", "-D", "-N", "node1"], ["slurmd", "-D", "-N", "node2"]]
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(one, env=environment, **output) for one in daemons]  # type: ignore[call-overload]
    try:
        _wait_for_nodes(environment)
        yield environment
    finally:
        subprocess.run(["scancel", "--quiet", "--user", user], env=environment, check=False)
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=60)


def _wait_for_nodes(environment: dict[str, str]) -> None:
    end = time.monotonic() + 60
    states = ""
    while time.monotonic() < end:
        time.sleep(1)
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%T"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        states = done.stdout + done.stderr
        if states.split() == ["idle", "idle"]:
            return
    raise TimeoutError(f"the nodes of SLURM are not idle: {states}")
