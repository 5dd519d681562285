"""Options of the data of a checkpoint, which `stage=test` accepts whatever data the command line chooses."""

import sys
from collections.abc import Sequence

from attention_lab.commandline.overrides import split_override

FILES = ("data.test_file=", "data.file=")


def accept_test_files() -> None:
    """Let this program's command line give a file to test a model on, before Hydra reads it."""
    sys.argv[1:] = with_test_files(sys.argv[1:])


def with_test_files(arguments: Sequence[str]) -> list[str]:
    """Arguments in which `stage=test` sets the file to test on, even if the chosen data has no such option.

    The chosen data is the default, not that of the checkpoint, which is known only later.
    """
    given = map(split_override, arguments)
    tests = any(one.key == "stage" and one.value.strip("\"'") == "test" for one in given)
    return [f"++{text}" if tests and text.startswith(FILES) else text for text in arguments]
