"""Prepare the command line of `train.py` before Hydra reads it."""

import sys
from pathlib import Path

from hydra.core.config_store import ConfigStore

from attention_lab.commandline.choice_checks import check_choices
from attention_lab.commandline.completion import check_completion, offer_choices, offer_harmless_files
from attention_lab.commandline.exit_errors import errors_in_one_line, shorten_reports
from attention_lab.commandline.flags import flags_first, print_version
from attention_lab.commandline.home_folders import with_home_folders
from attention_lab.commandline.overrides import with_test_options
from attention_lab.experiment import CHOICES
from attention_lab.interruption.folder_check import check_folder_writable
from attention_lab.interruption.resume_option import expand_resume
from attention_lab.runs.started import discard_unstarted


def prepare_command_line() -> None:
    """Rewrite `sys.argv` for Hydra, and end the program with one line if there is a mistake in it."""
    conf = Path(sys.argv[0]).resolve().parent / "conf"
    print_version()
    check_completion()
    with errors_in_one_line():
        arguments = expand_resume(with_home_folders(sys.argv[1:]), conf)
        check_folder_writable(arguments)
        arguments = flags_first(with_test_options(arguments))
        check_choices(arguments, conf)
    sys.argv[1:] = arguments
    offer_choices(CHOICES)
    offer_harmless_files()
    shorten_reports(discard_unstarted)


def share_config_store() -> None:
    """Let all copies of Hydra's loader share its registry, `ConfigStore`, which they only read.

    To list the groups for `--help`, Hydra deep-copies its loader five times per group. Copying the registry
    takes most of that, and half of the time of `--help`. Sharing it is safe: it is a singleton, and copies
    what is loaded from it.
    """
    ConfigStore.__deepcopy__ = lambda store, memo: store  # type: ignore[attr-defined]
