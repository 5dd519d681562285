"""Shell completion of options with fixed choices, such as `stage`.

Hydra completes groups, and names of options with their present value. It completes the choices of a group; so
for a query about one of these options, its choices are registered as those of a group.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from hydra.core.config_store import ConfigStore


def offer_choices(choices: Mapping[str, Sequence[str]]) -> None:
    """Register the choices of the option that the shell asks to complete, if this is such a query.

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
