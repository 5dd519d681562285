"""Whether a run has started: a command that fails before that leaves no folder and no trace in an older run.

A run has started when its options and inputs are known to be valid and its work is about to begin.
"""

from pathlib import Path

from attention_lab.files.run_files import CONFIG, ERROR, LOG
from attention_lab.files.writing import remove

_HYDRA = ".hydra"
_EARLY = {LOG, CONFIG, ERROR}
"""The files written to a run's folder before the run starts, besides Hydra's own."""
_started: set[Path] = set()
_new: list[Path] = []


def note_new_folders(folder: Path) -> None:
    """Remember which of the run's folder and its parents do not exist yet; Hydra is about to create them."""
    _started.clear()
    _new[:] = [path for path in (folder.absolute(), *folder.absolute().parents) if not path.exists()]


def keep_new_folders() -> None:
    """Keep the folders that this command created: another run, started at the same time, uses them."""
    _new.clear()


def mark_started(folder: Path, *, first: bool = True) -> None:
    """Note that the run in this folder starts now: from here on, a failure is recorded there.

    Args:
        folder: the run's folder.
        first: whether this is the first process of the run, which removes the record of an earlier failure.
    """
    _started.add(folder.absolute())
    if first:
        remove(folder / ERROR)


def has_started(folder: Path) -> bool:
    """Whether the run in this folder has started in this process."""
    return folder.absolute() in _started


def discard_unstarted() -> None:
    """Remove the new folder of a run if it could not start, for example because Hydra could not write it."""
    if _new and not has_started(_new[0]):
        discard_new_folder(_new[0])


def discard_new_folder(folder: Path) -> None:
    """Remove the folder of a run that has not started, and its parents, if this command created them.

    A folder is kept if it holds anything but the files written before the start.
    """
    if folder.absolute() not in _new or any(path.is_symlink() for path in (folder, folder / _HYDRA)):
        return
    names = {path.name for path in folder.glob("*")}  # none if the folder itself could not be made
    if not names <= {*_EARLY, _HYDRA}:
        return
    for path in (*(folder / _HYDRA).glob("*.yaml"), *(folder / name for name in names - {_HYDRA})):
        path.unlink(missing_ok=True)
    for path in (folder / _HYDRA, *_new):
        try:
            path.rmdir()
        except OSError:  # not empty, or missing
            if path.exists():
                return
