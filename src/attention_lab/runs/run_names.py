"""Names of run folders and of the jobs in a sweep. It does not import torch."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from attention_lab.commandline.overrides import as_typed, option_names, quote, split_override
from attention_lab.files.regular_files import exists
from attention_lab.files.run_files import METRICS
from attention_lab.runs.checkpoint_paths import run_of
from attention_lab.runs.run_folder import read_choices, read_yaml_or_none, started_jobs

RESOLVER = "run_name"
"""Name of the configuration's resolver: `${run_name:}` becomes the result of `folder_name`."""
JOB_RESOLVER = "job_name"
"""Name of the resolver of a sweep's job: `${job_name:}` becomes the result of `job_name`."""
_LONGEST = 60  # bytes of a choice in a folder's name
_LONGEST_JOB = 120  # characters of a job's name, after its number
_EXCLUDED = "hydra.job.config.override_dirname.exclude_keys"


def register_resolvers() -> None:
    """Register the resolvers of `${run_name:}` and `${job_name:}`."""

    def run_name(*, _root_: DictConfig) -> str:
        """The name of the folder of the run that this configuration describes."""
        hydra = _root_.hydra
        given = option_names(as_typed(hydra.overrides.task))
        return folder_name(str(_root_.stage), hydra.runtime.choices, given, _root_.ckpt_path)

    def name_of_job(*, _root_: DictConfig) -> str:
        """The name of the folder of this job of a sweep."""
        name = job_name(_root_.hydra.job.num, _root_.hydra.job.override_dirname)
        if _root_.stage != "fit" or _root_.resume is None:
            return name
        return resumed_job_name(Path(_root_.hydra.sweep.dir), name, _root_.hydra.overrides.task)

    OmegaConf.register_new_resolver(RESOLVER, run_name, replace=True)
    OmegaConf.register_new_resolver(JOB_RESOLVER, name_of_job, replace=True)


def job_name(number: int, options: str) -> str:
    """The name of a job's folder in a sweep, which needs no quotes in a shell or in a Hydra override.

    >>> job_name(3, "data.size=[10,20],scoring=additive")
    '3_data.size-10_20-_scoring-additive'

    Args:
        number: the job's number, which makes the name unique.
        options: the options that differ between jobs, as given by Hydra's `override_dirname`; without any,
            the job has the default options.
    """
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", options.replace(",", "_"))[:_LONGEST_JOB]
    return f"{number}_{plain.strip('-') or 'default'}"


def job_configuration(
    loader: ConfigLoader, sweep: DictConfig, options: Iterable[str], number: int
) -> tuple[DictConfig, Path]:
    """The configuration of a sweep's job, as Hydra's launchers compose it, and the job's folder.

    Args:
        loader: Hydra's loader of configurations.
        sweep: the configuration of the sweep.
        options: the options of the job.
        number: the job's number.
    """
    before = HydraConfig.instance().cfg
    job = loader.load_sweep_config(sweep, list(options))
    with open_dict(job):
        job.hydra.job.num, job.hydra.job.id = number, str(number)
    HydraConfig.instance().set_config(job)
    try:
        return job, Path(job.hydra.sweep.dir, str(OmegaConf.select(job, "hydra.sweep.subdir")))
    finally:
        HydraConfig.instance().cfg = before


def resumed_job_name(sweep: Path, name: str, options: Iterable[str]) -> str:
    """The name of a job's folder in a resumed sweep: that of an earlier job with the same options, if any.

    If the sweep has more values than before, such as more seeds, its jobs have other numbers and names.

    Args:
        sweep: the sweep's folder.
        name: the name that the job has otherwise, and keeps if there is such a folder.
        options: the options on its command line.
    """
    return name if exists(sweep / name) else _earlier_jobs(sweep).get(_distinct(options), name)


@cache
def _earlier_jobs(sweep: Path) -> dict[frozenset[str], str]:
    """The names of the jobs' folders in a sweep's folder, by their options; finished jobs take precedence."""
    found = {}
    for record in sorted(started_jobs(sweep), key=lambda record: exists(record.parents[1] / METRICS)):
        options = read_yaml_or_none(record)
        if isinstance(options, list):
            found[_distinct(map(str, options))] = record.parents[1].name
    return found


def _distinct(options: Iterable[str]) -> frozenset[str]:
    """The options of a job, without those that change neither its results nor its name."""
    return frozenset(one for one in options if split_override(one).key not in ("resume", "launcher"))


def folder_name(stage: str, choices: Any, given: Iterable[str] = (), checkpoint: Any = None) -> str:
    """The name of a run's folder without the time: `model/data_scoring` for a training run.

    The test of a checkpoint in its run's folder is named like `seq2seq/test_reverse_dot`, after that run's
    model, data and scoring, or after other data if it was `given`; likewise `predict` and `export`. If these
    are unknown, for an ensemble of checkpoints, and for all other stages, the name is just the stage.
    """
    if stage == "fit":
        return f"{choices['model']}/{choices['data']}_{choices['scoring']}"
    if stage not in ("test", "predict", "export") or not isinstance(checkpoint, str):
        return stage
    trained = read_choices(run_of(checkpoint))
    data = choices["data"] if "data" in given else trained.get("data")
    parts = [trained.get("model"), data, trained.get("scoring")]
    if not all(part and part.replace("_", "").isalnum() and len(part.encode()) <= _LONGEST for part in parts):
        return stage
    return f"{parts[0]}/{stage}_{parts[1]}_{parts[2]}"


def exclude_from_names(config: DictConfig, constant: Iterable[str]) -> None:
    """Leave options that are the same for all jobs of a sweep out of the names of the jobs' folders.

    Each job's configuration is composed anew, and only changes in `hydra.overrides.hydra` reach it.
    """
    excluded = [*config.hydra.job.config.override_dirname.exclude_keys, *constant]
    quoted = ",".join(quote(key) for key in dict.fromkeys(excluded))
    with read_write(config), open_dict(config):
        config.hydra.overrides.hydra.append(f"{_EXCLUDED}=[{quoted}]")
