"""The stage that turns run folders into one HTML file; it does not import torch."""

import logging
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.errors import LabError
from attention_lab.runs.results import flatten_options
from attention_lab.runs.run_folder import METRICS, read_choices, read_metrics, read_options, read_yaml_or_none
from attention_lab.runs.test_errors import read_confusions, read_worst
from attention_lab.tensorboard_plugin.event_files import event_folder, read_log
from attention_lab.tensorboard_plugin.report import Run, make_page
from attention_lab.writing import write_atomically

FILE = "report.html"


def report(config: DictConfig) -> None:
    """Write `report.html` to the run's folder, or for several runs to this job's own folder.

    Raises:
        LabError: `run` does not name run folders.
    """
    logging.getLogger("tensorboard").setLevel(logging.WARNING)  # it logs every file that it reads
    folders = _folders(config.run)
    names = _names(folders)
    runs = [_read(folder, name) for folder, name in zip(folders, names, strict=True)]
    target = folders[0] if len(folders) == 1 else Path(HydraConfig.get().runtime.output_dir)
    title = " and ".join(names) if len(names) < 3 else f"{len(names)} runs"
    page = make_page(title, _command(folders[0]) if len(folders) == 1 else "", runs)
    write_atomically(target / FILE, page)
    print(f"Report: {target / FILE} ({len(page) / 1e6:.1f} MB)")


def _folders(given: Any) -> list[Path]:
    if given is None:
        raise LabError(
            "stage=report needs run=<run folder>, as in run=logs/seq2seq/..., or several: 'run=[a,b]'"
        )
    listed = OmegaConf.to_container(given) if OmegaConf.is_config(given) else [given]
    folders = [Path(str(one)) for one in listed] if isinstance(listed, list) else []
    if not folders:
        raise LabError(f"run={given}: give a run folder, or a list of them")
    for folder in folders:
        if not folder.is_dir():
            raise LabError(f"run={folder} is not a folder: choose one that a training run wrote in logs/")
        if not (folder / "config.yaml").is_file():
            raise LabError(f"run={folder} is not a run folder: it has no config.yaml")
    return folders


def _names(folders: list[Path]) -> list[str]:
    """The name of each run: as many of the last parts of its path as are needed to distinguish the runs."""
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise LabError("run: the same folder is named twice")
    longest = max(len(path.parts) for path in paths)
    names = ["/".join(path.parts[-2:]) for path in paths]
    for parts in range(2, longest + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _read(folder: Path, name: str) -> Run:
    """The contents of a run's folder; a run without a log has no curves and no attention."""
    config, metrics = folder / "config.yaml", folder / METRICS
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
