"""Read Hydra's flags, such as `-m` and `--config-dir`, which may stand anywhere on the command line.

Hydra's own parser takes the options from one place only: those on the other side of a flag are unrecognised.
"""

import re
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from attention_lab.errors import LabError

_EXCLUSIVE = ("cfg", "info", "multirun", "run", "shell_completion")
"""Flags of which a command line may contain only one, by their names in the parsed arguments."""


def flags_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with all flags and their values first. Raises LabError as `read_flags` does."""
    options = read_flags(arguments).overrides
    # The value of a flag has no "=", so it is never mistaken for an option.
    flags = [argument for argument in arguments if argument not in options]
    if flags and flags[-1] in ("--info", "-i"):  # without a value, for which it would take the first option
        flags.append("all")
    return [*flags, *options]


def read_flags(arguments: Sequence[str]) -> Namespace:
    """The flags of a command line, under Hydra's names; `overrides` has the arguments that are not flags.

    Raises:
        LabError: a flag is unknown, has a wrong value, or cannot be combined with another.
    """
    _accept_help_of_hydra()
    parser = get_args_parser()
    known = parser._option_string_actions  # argparse has no public list of its flags
    # To argparse, "-model" is -m with the value "odel"; from Python 3.13 on, "-odel" is left of it.
    glued = [one for one in arguments if re.match(r"-\w\w", one) and one.partition("=")[0] not in known]

    def reject(message: str) -> NoReturn:
        raise LabError(_not_a_flag(glued[0]) if glued else message.removeprefix("argument "))

    parser.error = reject  # type: ignore[method-assign]
    flags, left = parser.parse_known_args(arguments)
    for argument in left:
        if argument.startswith("-"):
            typed = (one for one in glued if one.endswith(argument[1:]))
            raise LabError(_not_a_flag(argument if argument in arguments else next(typed, argument)))
    flags.overrides += left
    given = [f"--{name.replace('_', '-')}" for name in _EXCLUSIVE if getattr(flags, name)]
    if len(given) > 1:
        raise LabError(f"{given[0]} and {given[1]} cannot be combined: leave out one of them")
    if flags.experimental_rerun is not None:
        raise LabError(
            "--experimental-rerun reads a pickle, which can run code: give the options in the run's "
            ".hydra/overrides.yaml again, or continue a run with resume=..."
        )
    if flags.resolve and not (flags.cfg or flags.help):
        raise LabError("--resolve needs --cfg or --help")
    return flags


@cache
def _accept_help_of_hydra() -> None:
    """Let argparse accept a help text that is not a string, as Hydra 1.3 has one (hydra#3121).

    From Python 3.14 on, argparse rejects it before it reads a command line.
    """
    check = getattr(ArgumentParser, "_check_help", None)
    if check is None:
        return

    def check_text(parser: ArgumentParser, action: Action) -> None:
        if isinstance(action.help, str):
            check(parser, action)

    ArgumentParser._check_help = check_text  # type: ignore[attr-defined]


def _not_a_flag(argument: str) -> str:
    option = argument.lstrip("-")
    advice = option if "=" in option else "options as name=value"
    example = "" if "=" in option else ", such as seed=2"
    return f"{argument} is not a flag: write {advice}, without dashes{example}"


def print_version() -> None:
    """Print the versions and end the program if the command line contains `--version`."""
    if "--version" not in sys.argv[1:]:
        return
    first, *others = versions(("attention-lab", "torch", "pytorch-lightning", "hydra-core"))
    print(f"{first} ({', '.join(others)}, Python {sys.version.split()[0]})")
    sys.exit(0)


def versions(packages: Iterable[str]) -> Iterator[str]:
    """Yield the name and version of each package, or that it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, since it slows down the start

    for package in packages:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} (not installed)"
