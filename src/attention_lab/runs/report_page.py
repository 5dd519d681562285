"""The stage that turns run folders into one HTML file; it does not import torch."""

import logging
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.errors import LabError
from attention_lab.runs.path_patterns import expand_paths
from attention_lab.runs.results import flatten_options
from attention_lab.runs.run_folder import (
    METRICS,
    find_runs,
    read_choices,
    read_metrics,
    read_options,
    read_yaml_or_none,
)
from attention_lab.runs.test_errors import read_confusions, read_worst
from attention_lab.tensorboard_plugin.event_files import event_folder, read_log
from attention_lab.tensorboard_plugin.report import Run, make_page
from attention_lab.writing import write_atomically

FILE = "report.html"
CONFIG = "config.yaml"


def report(config: DictConfig) -> None:
    """Write `report.html` on all runs in and below `run`: a run's or sweep's folder, a pattern, or a list.

    The file goes into that folder, or into this job's own if several are given.

    Raises:
        LabError: `run` is not a folder, or there is no run in it.
    """
    logging.getLogger("tensorboard").setLevel(logging.WARNING)  # it logs every file that it reads
    given = _folders(config.run)
    folders = list({path.resolve(): path for folder in given for path in _runs(folder)}.values())
    names = _names(folders)
    runs = [_read(folder, name) for folder, name in zip(folders, names, strict=True)]
    target = given[0] if len(given) == 1 else Path(HydraConfig.get().runtime.output_dir)
    title = " and ".join(names) if len(names) < 3 else f"{len(names)} runs"
    page = make_page(title, _command(folders[0]) if len(folders) == 1 else "", runs)
    write_atomically(target / FILE, page)
    print(f"Report: {target / FILE} ({len(page) / 1e6:.1f} MB)")


def _folders(given: Any) -> list[Path]:
    """The folders given as a folder, a pattern or a list of them."""
    if given is None:
        raise LabError(
            "stage=report needs run=<run folder>, as in run=logs/seq2seq/..., or several: 'run=[a,b]', "
            "or the folder of a sweep"
        )
    listed = OmegaConf.to_container(given) if OmegaConf.is_config(given) else [given]
    texts = [str(one) for one in listed] if isinstance(listed, list) else []
    folders = expand_paths(texts, "run", "folder", Path.is_dir)
    if not folders:
        raise LabError(f"run={given}: give a run folder, or a list of them")
    if len({path.resolve() for path in folders}) < len(texts):
        raise LabError("run: the same folder is named twice")
    for folder in folders:
        if not folder.is_dir():
            raise LabError(f"run={folder} is not a folder: choose one that a training run wrote in logs/")
    return folders


def _runs(folder: Path) -> list[Path]:
    """The run in this folder, or all runs below it: those of a sweep, or of `logs`."""
    if (folder / CONFIG).is_file():
        return [folder]
    found = [job.folder for job in find_runs([folder]) if (job.folder / CONFIG).is_file()]
    if not found:
        raise LabError(f"run={folder}: no run has its {CONFIG} in or below this folder")
    return found


def _names(folders: list[Path]) -> list[str]:
    """The name of each run: as many of the last parts of its path as are needed to distinguish the runs."""
    paths = [folder.resolve() for folder in folders]
    longest = max(len(path.parts) for path in paths)
    names = ["/".join(path.parts[-2:]) for path in paths]
    for parts in range(2, longest + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _read(folder: Path, name: str) -> Run:
    """The contents of a run's folder; a run without a log has no curves and no attention."""
    config, metrics = folder / CONFIG, folder / METRICS
    log = read_log(event_folder(folder))
    options = flatten_options(read_options(config, str(config)))
    return Run(
        name,
        {**read_choices(folder), **{path: str(value) for path, value in options.items()}},
        read_metrics(metrics, str(metrics)) if metrics.exists() else {},
        log.curves,
        log.records,
        samples=log.samples,
        confusions=read_confusions(folder),
        worst=read_worst(folder),
        headline=str(options.get("monitor.metric", "")).replace("validation/", "test/"),
    )


def _command(folder: Path) -> str:
    """The command line of a run; empty if it cannot be read, as the page shows the options anyway."""
    overrides = read_yaml_or_none(folder / ".hydra" / "overrides.yaml")
    return "python train.py " + " ".join(map(str, overrides)) if isinstance(overrides, list) else ""
