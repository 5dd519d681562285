"""Check that nothing in a run's folder leads out of it, so that a run writes only there."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_file, is_folder, lexists
from attention_lab.files.run_files import CHECKPOINTS, CONFIG, EARLIER_LOGS, HEATMAPS, LOG, PROFILE, SWEEP

MOST_FILES = 100_000
"""Maximum number of files in a run's folder; even thousands are unusual."""
MOST_LEVELS = 100
"""Maximum number of nested folders in a run's folder; with a thousand, recursive functions fail."""
_DATABASE = tuple(f"mlflow.db{suffix}" for suffix in ("", "-journal", "-wal", "-shm"))
# Hydra, the loggers and the lock of a study open these, whatever they are.
_FILES = (LOG, SWEEP, CONFIG, "hydra.yaml", "overrides.yaml", "metrics.csv", "study.lock", *_DATABASE)
_FOLDERS = (".hydra", CHECKPOINTS, HEATMAPS)
OPENED = (
    *(LOG, SWEEP, PROFILE, *_DATABASE),
    *(*_FOLDERS, EARLIER_LOGS, "embeddings", "csv", "wandb", "mlflow_artifacts"),
)
"""The files that a run opens in its folder, and the folders in which it writes; it replaces all others."""


def check_links(folder: Path, most: int = MOST_FILES, names: Collection[str] | None = None) -> None:
    """Reject a run's folder that contains anything through which files outside it could be written.

    Args:
        folder: the folder of a run, or of a sweep with its jobs; it need not exist.
        most: the largest number of files.
        names: the files and folders in it that are checked, such as `OPENED`; None for all.

    Raises:
        LabError: it is not a folder, a link leads out of it, or it contains a hard link or something that is
            not a file, has too many files or levels, or cannot be read.
    """
    if lexists(folder) and not is_folder(folder):
        raise LabError(f"{folder} is not a folder: remove it")
    real = Path(os.path.realpath(folder))
    try:
        for number, entry in enumerate(_entries(folder, names)):
            if number > most:
                raise LabError(f"{folder} has more than {most} files, more than any run has")
            with suppress(FileNotFoundError):  # another process of the run or sweep has removed it
                _check_entry(entry, real)
    except OSError as error:
        raise LabError(f"{error.filename or folder} cannot be read: {error.strerror}") from None


def _check_entry(entry: os.DirEntry[str], real: Path) -> None:
    linked = entry.is_symlink()
    if linked:
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(real):
            raise LabError(f"{entry.path} links out of the run's folder: replace it with a copy")
        if target.is_symlink():
            raise LabError(f"{entry.path} is a link to itself: remove it")
    if entry.name in _FILES and (linked or entry.is_dir()) and not is_file(entry.path):
        raise LabError(f"{entry.path} is not a file: remove it")
    if entry.name in _FOLDERS and not entry.is_dir():
        raise LabError(f"{entry.path} is not a folder: remove it")
    if linked:
        return
    mode = entry.stat(follow_symlinks=False)
    if not (stat.S_ISREG(mode.st_mode) or stat.S_ISDIR(mode.st_mode)):
        raise LabError(f"{entry.path} is neither a file nor a folder: remove it")
    if stat.S_ISREG(mode.st_mode) and mode.st_nlink > 1:
        raise LabError(f"{entry.path} has a second hard link: use a copy of the folder (cp -r)")


def _entries(folder: Path, names: Collection[str] | None) -> Iterator[os.DirEntry[str]]:
    pending = [(str(folder), 0)]
    while pending:
        path, level = pending.pop()
        if level > MOST_LEVELS:
            raise LabError(f"{folder} has more than {MOST_LEVELS} levels of folders, more than any run has")
        with suppress(FileNotFoundError), os.scandir(path) as entries:
            for entry in entries:
                if level == 0 and names is not None and entry.name not in names:
                    continue
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, level + 1))
