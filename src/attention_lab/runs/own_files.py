"""Whether the files of a run that are shown to the user are its own."""

import os
from contextlib import suppress
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.files.paths import is_inside
from attention_lab.files.regular_files import is_folder
from attention_lab.files.run_files import EARLIER_LOGS

_FOLDERS = (".hydra", EARLIER_LOGS)
"""Folders in a run's folder whose files are shown, too."""


def check_own_files(folder: Path) -> None:
    """Reject a run's folder if one of the files that are shown is a link to a file outside it.

    A leaderboard or a report would repeat what such a file says, and might then be sent to others. Links to
    other folders, such as those of checkpoints on a larger disk, are allowed.

    Raises:
        LabError: a link leads out of it.
    """
    for one in (folder, *(folder / name for name in _FOLDERS)):
        with suppress(OSError), os.scandir(one) as entries:  # missing or unreadable: nothing is shown
            for entry in entries:
                shown = entry.name in _FOLDERS or not is_folder(entry.path)
                if shown and entry.is_symlink() and not is_inside(entry.path, folder):
                    raise LabError(f"{entry.path} links out of the run's folder: replace it with a copy")
