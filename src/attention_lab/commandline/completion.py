"""Shell completion of options with fixed choices, such as `stage`.

Hydra completes the choices of a group, but for an option it offers only the current value. So when the shell
asks about one of these options, its choices are registered as those of a group.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from hydra.core.config_store import ConfigStore


def offer_choices(choices: Mapping[str, Sequence[str]]) -> None:
    """If the shell asks to complete the value of such an option, register its choices.

    Args:
        choices: the choices of each option.
    """
    words = os.environ.get("COMP_LINE", "").split(" ")
    if not {"-sc", "--shell-completion"} & set(sys.argv[1:]):
        return
    option, equals, _ = words[-1].partition("=")
    if equals and option in choices:
        for choice in choices[option]:
            ConfigStore.instance().store(name=choice, node={}, group=option)
