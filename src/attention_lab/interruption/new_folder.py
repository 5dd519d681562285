"""Give each run and sweep whose folder is named by the time a folder of its own."""

import itertools
import re
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from attention_lab.interruption.ranks import is_first_of_command
from attention_lab.runs.started import note_new_folders

_NOW = re.compile(r"\$\{now:([^{}]*)\}")


def is_named_by_time(config: DictConfig, kind: str) -> bool:
    """Whether the time is in the name of a run's folder ("run"), or a sweep's or its jobs' ("sweep")."""
    return "${now:" in str(OmegaConf.to_container(config.hydra[kind], resolve=False))


def claim_new_folder(config: DictConfig, kind: str) -> None:
    """Create the folder of a run or sweep whose name contains the time, before Hydra writes to it.

    If the name is taken, as by another command that was started in the same second, `_2` is appended to the
    time, or the next number that is free. Any other folder, and one that cannot be created, is left to Hydra.

    Args:
        config: Hydra's configuration; the value of `${now:...}` in it, and in its jobs, is changed.
        kind: "run" or "sweep".
    """
    folder = Path(config.hydra[kind].dir)
    note_new_folders(folder)
    unresolved = OmegaConf.to_container(config.hydra[kind], resolve=False)
    assert isinstance(unresolved, dict)
    times = _NOW.findall(unresolved["dir"])
    if not times or ".." in folder.parts or not is_first_of_command():
        return
    values = OmegaConf.get_cache(config)["now"]  # Hydra keeps the time of the start there
    last = (times[-1],)
    start = values[last]
    for number in itertools.count(2):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            values[last] = f"{start}_{number}"
            folder = Path(config.hydra[kind].dir)
            note_new_folders(folder)
        except OSError:
            return
        else:
            return
