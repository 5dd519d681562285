"""The stage that makes one HTML file of a run folder, to look at or to send; it needs no torch."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.errors import LabError
from attention_lab.runs.results import flatten_options
from attention_lab.runs.run_folder import METRICS
from attention_lab.tensorboard_plugin.report import Run, make_page, read_log
from attention_lab.untrusted.plain_files import one_line, read_json, read_yaml
from attention_lab.writing import write_atomically

FILE = "report.html"


def report(config: DictConfig) -> None:
    """Write `report.html`: into the folder of the run, or for several runs into this job's own.

    Raises:
        LabError: `run` names no folder of a run.
    """
    logging.getLogger("tensorboard").setLevel(logging.WARNING)  # it tells of every file that it has read
    folders = _folders(config.run)
    names = _names(folders)
    runs = [_read(folder, name) for folder, name in zip(folders, names, strict=True)]
    target = folders[0] if len(folders) == 1 else Path(HydraConfig.get().runtime.output_dir)
    page = make_page(" and ".join(names), _about(folders[0]) if len(folders) == 1 else "", runs)
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
            raise LabError(f"run={folder} is no folder: give one that a training left in logs/")
        if not (folder / "config.yaml").is_file():
            raise LabError(f"run={folder} is no run folder: it has no config.yaml")
    return folders


def _names(folders: list[Path]) -> list[str]:
    """Of each run: the last parts of its path, as many as tell the runs apart."""
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
    """What a run left behind; where it wrote no log there are no curves and no attention."""
    log = folder / "tensorboard"
    curves, records = read_log(log) if log.is_dir() else ({}, {})
    return Run(name, _config(folder / "config.yaml"), _metrics(folder / METRICS), curves, records)


def _config(path: Path) -> dict[str, str]:
    plain = read_yaml(path, str(path))
    if not isinstance(plain, Mapping):
        raise LabError(f"{path} holds no options")
    options = flatten_options({str(key): value for key, value in plain.items()})
    return {name: str(value) for name, value in options.items()}


def _metrics(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    read = read_json(path, str(path))
    try:
        return {str(name): float(value) for name, value in read.items()}
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise LabError(f"{path} cannot be read: {one_line(error)}") from None


def _about(folder: Path) -> str:
    """What was chosen, as it was said on the command line."""
    path = folder / ".hydra" / "overrides.yaml"
    if not path.is_file():
        return ""
    try:
        overrides = read_yaml(path)
    except LabError:
        return ""  # the page says the options anyway
    return "python train.py " + " ".join(map(str, overrides)) if isinstance(overrides, list) else ""
