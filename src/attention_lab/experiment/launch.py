"""Jobs of a sweep that use several processes, each in a process of its own.

Lightning starts the other ranks by running the command line again. In a sweep that command line is
the whole sweep, and the ranks would train different settings; in a process of its own a job has a
command line of its own.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from attention_lab.errors import LabError

INHERITED = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "RANK", "WORLD_SIZE", "PL_GLOBAL_SEED")
"""Variables by which ranks find each other: those of this process are not those of the job."""


def needs_own_process(config: DictConfig) -> bool:
    """Whether this is a job of a sweep with more than one process."""
    trainer = config.trainer
    several = str(trainer.devices) != "1" or int(trainer.num_nodes) > 1
    return several and HydraConfig.get().mode == RunMode.MULTIRUN


def run_in_own_process() -> float | None:
    """Run the job as a single run in the same folder; returns what the run would have returned.

    Raises:
        LabError: the run failed; it has said why itself.
    """
    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    command = [sys.executable, str(Path(sys.argv[0]).resolve()), *hydra.overrides.task]
    command += [f"hydra.run.dir={json.dumps(str(folder), ensure_ascii=False)}", "hydra.mode=RUN"]
    command += [f"hydra.job.num={hydra.job.num}"]  # by which it knows that it is one of several
    environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
    previous = signal.signal(signal.SIGTERM, _stop)
    try:
        with subprocess.Popen(command, env=environment) as process:
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
    finally:
        signal.signal(signal.SIGTERM, previous)
    results = folder / "metrics.json"
    if status or not results.is_file():
        raise LabError(f"the run in {folder} failed with exit status {status}")
    best = json.loads(results.read_text(encoding="utf-8")).get("fit/best")
    return None if best is None else float(best)


def _stop(*_: Any) -> NoReturn:
    sys.exit(143)
