"""The folders that `run=` gives, and the folder into which a stage that reads them writes."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_folder
from attention_lab.runs.path_patterns import expand_paths

OUTPUT = "hydra.run.dir="


def given_folders(config: DictConfig) -> list[Path]:
    """The folders of `run`, a folder, a pattern or a list of them; a folder given twice counts once.

    Raises:
        LabError: there are none, or one is not a folder.
    """
    given = config.run
    if given in (None, ""):  # "" is the working directory, or a variable that is not set
        raise LabError(
            f"stage={config.stage} needs run=<folder of a run or a sweep>, such as run=logs/seq2seq/..., "
            "or several: 'run=[a,b]'"
        )
    listed = OmegaConf.to_container(given) if OmegaConf.is_config(given) else [given]
    texts = [str(one) for one in listed] if isinstance(listed, list) else []
    folders = expand_paths(texts, "run", "folder", is_folder)
    if not folders:
        raise LabError(f"run={given}: give the folder of a run or a sweep, or a list of them")
    for folder in folders:
        if not is_folder(folder):
            raise LabError(
                f"run={folder} is not a folder: give the folder of a run or a sweep, such as one in logs/"
            )
    return list({folder.resolve(): folder for folder in reversed(folders)}.values())[::-1]


def output_folder(given: Sequence[Path]) -> Path:
    """The folder to write into: `hydra.run.dir` if it was typed; else the one given, or the job's own."""
    hydra = HydraConfig.get()
    typed = any(override.startswith(OUTPUT) for override in hydra.overrides.hydra)
    return Path(hydra.runtime.output_dir) if typed or len(given) > 1 else given[0]
