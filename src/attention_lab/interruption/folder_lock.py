"""Lock a run's folder, so that no other run uses it at the same time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.interruption.ranks import is_rank_zero
from attention_lab.runs.started import keep_new_folders


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other run uses it at the same time.

    Raises:
        LabError: another run has locked it.
    """
    if not is_rank_zero():  # the first process of the run holds the lock
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            keep_new_folders()
            raise LabError(
                f"another run is using {short_path(folder)}: wait for it to finish, or stop it first"
            ) from None
        except OSError:
            pass  # not supported by every file system
        yield
    finally:
        os.close(descriptor)
