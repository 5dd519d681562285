"""Shell completion of options with fixed choices, such as `stage`, and of the names of files.

Hydra completes the choices of a group, but for an option it offers only the current value. So when the shell
asks about one of these options, its choices are registered as those of a group.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence

from hydra.core.config_store import ConfigStore
from hydra.plugins.completion_plugin import CompletionPlugin

FLAGS = {"-sc", "--shell-completion"}
SUBCOMMAND = r"(un)?install=(bash|zsh|fish)"
"""The values of `-sc` that a user types. The shell itself passes `query=`, with the line in `COMP_LINE`."""
_HARMLESS = re.compile(r"[\w.,:=@%+-]+")
"""The names of files that mean the same to every shell, whatever it expands."""


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


def offer_harmless_files() -> None:
    """Leave out files, perhaps from others, whose names the shell would run, such as `$(command)`.

    In bash, Hydra passes the names to `compgen -W`, which expands each as if the user had typed it.
    """
    if not FLAGS & set(sys.argv[1:]):
        return
    every = CompletionPlugin.complete_files

    def harmless(word: str) -> list[str]:
        """The files that begin with the word and have harmless names."""
        return [path for path in every(word) if _HARMLESS.fullmatch(path.rpartition("/")[2])]

    CompletionPlugin.complete_files = staticmethod(harmless)  # type: ignore[method-assign]
