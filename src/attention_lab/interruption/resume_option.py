"""The option `resume=<run folder>`: it is expanded to the command line of a run in that folder."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from attention_lab.commandline.overrides import option_names, paths_given, quote, split_override
from attention_lab.config_parts import GROUPS
from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists, is_file, is_folder
from attention_lab.files.run_files import CONFIG, SWEEP
from attention_lab.interruption.resume import AUTO
from attention_lab.runs.checkpoint_paths import newest_run
from attention_lab.runs.run_folder import read_choices
from attention_lab.untrusted.folder_links import check_links


def expand_resume(arguments: Sequence[str], conf: Path) -> list[str]:
    """Expand `resume=<folder>` to the command line that resumes the run in its folder.

    The run's group choices are added, so that the options within them are known; `resumed_configuration`
    later loads their values. A command line without `resume=<folder>` is returned unchanged.

    Args:
        arguments: the command line.
        conf: the configuration folder.

    Raises:
        LabError: the folder is not a training run's, or another argument cannot be combined with `resume`.
    """
    given = (paths_given(arguments, "resume") or [""])[-1]
    if given in (AUTO, "null", ""):
        return list(arguments)
    folder = Path(os.path.realpath(given))  # where `Path.resolve` fails for a link to itself
    run_folder = f"hydra.run.dir={quote(str(folder))}"
    if run_folder in arguments:  # already expanded: this is another process of the run
        return list(arguments)
    others = [argument for argument in arguments if split_override(argument).key != "resume"]
    for argument in others:
        key = split_override(argument).key
        if argument in ("-m", "--multirun") or (argument.startswith("hydra") and key != "hydra.searchpath"):
            raise LabError(f"resume=<folder> resumes one run in its own folder: leave out {argument}")
        if key == "stage":
            raise LabError(f"resume=<folder> resumes a training run: leave out {argument}")
    if not is_file(folder / CONFIG):
        raise LabError(f"resume={given}: {_why_not_resumable(folder)}")
    if "${" in str(folder):  # its name may be from others, and Hydra would write to another folder
        raise LabError(f"resume={given}: Hydra would replace the ${{ in the folder's name: rename the folder")
    check_links(folder)  # here, because Hydra is about to write to the folder
    choices = [
        f"{group}={choice}"
        for group, choice in read_choices(folder).items()
        if group in GROUPS and group not in option_names(others) and _is_choice(conf / group, choice)
    ]
    return [*choices, *others, run_folder, "hydra.output_subdir=null", f"resume={quote(str(folder))}"]


def _is_choice(folder: Path, choice: str) -> bool:
    return re.fullmatch(r"[\w-]{1,60}", choice) is not None and (folder / f"{choice}.yaml").is_file()


def _why_not_resumable(folder: Path) -> str:
    if not exists(folder):
        return "there is no such folder"
    if is_file(folder):
        run = next((path for path in folder.parents if is_file(path / CONFIG)), folder.parent)
        return f"give the folder of the run, {run}"
    if exists(folder / SWEEP):
        return "to resume a sweep, run its command again with resume=auto hydra.sweep.dir=<that folder>"
    if is_folder(folder / ".hydra"):
        return "that run was stopped before it started: run its command again"
    if newest := newest_run(folder, CONFIG):
        return f"give the folder of one run, such as {newest}"
    return "that is not the folder of a run: it has no config.yaml"
