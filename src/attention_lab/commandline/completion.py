"""Shell completion of options with fixed choices, such as `stage`.

Hydra completes the choices of a group, but for an option it offers only the current value. So when the shell
asks about one of these options, its choices are registered as those of a group.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence

from hydra.core.config_store import ConfigStore

FLAGS = {"-sc", "--shell-completion"}
SUBCOMMAND = r"(un)?install=(bash|zsh|fish)"
"""The values of `-sc` that a user types. The shell itself passes `query=`, with the line in `COMP_LINE`."""


def check_completion() -> None:
    """End the program with a one-line message if `-sc` comes without the name of a shell.

    Hydra would end in a traceback.
    """
    if not FLAGS & set(sys.argv[1:]):
        return
    given = [one for one in sys.argv[1:] if re.fullmatch(SUBCOMMAND, one)]
    if len(given) != 1 and "COMP_LINE" not in os.environ:
        sys.exit(
            "Error: -sc needs install=bash, install=zsh or install=fish (or uninstall=...), as in "
            """'eval "$(python train.py -sc install=bash)"'"""
        )


def offer_choices(choices: Mapping[str, Sequence[str]]) -> None:
    """If the shell asks to complete the value of such an option, register its choices."""
    words = os.environ.get("COMP_LINE", "").split(" ")
    if not FLAGS & set(sys.argv[1:]):
        return
    option, equals, _ = words[-1].partition("=")
    if equals and option in choices:
        for choice in choices[option]:
            ConfigStore.instance().store(name=choice, node={}, group=option)
