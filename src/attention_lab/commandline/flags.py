"""Flags such as `-m` and `--config-dir` anywhere on the command line.

Hydra's parser takes the options from one place only: those on the other side of a flag are unrecognised.
"""

import sys
from collections.abc import Sequence

from hydra._internal.utils import get_args_parser


def move_flags_first() -> None:
    """Put the flags of this program's command line first, before Hydra reads it."""
    sys.argv[1:] = flags_first(sys.argv[1:])


def flags_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with all flags and their values first; unchanged if Hydra does not know a flag."""
    parsed, left = get_args_parser().parse_known_args(arguments)
    if not left or any(argument.startswith("-") for argument in left):
        return list(arguments)
    options = [*parsed.overrides, *left]
    # The value of a flag has no "=", so it is never mistaken for an option.
    return [*(argument for argument in arguments if argument not in options), *options]
