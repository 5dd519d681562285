"""Check that options on the command line exist and have values of the right type.

Hydra finds some of the same mistakes, but its messages are many lines long, and it accepts wrong types.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]

from attention_lab.commandline.option_paths import flatten, is_hydra_key
from attention_lab.commandline.option_values import NESTED_GROUPS, Defaults, check_value
from attention_lab.commandline.other_names import OPTIONS, SIBLINGS
from attention_lab.commandline.overrides import (
    listed_values,
    parse_override,
    part_of,
    quote,
)
from attention_lab.constructor_options import closest
from attention_lab.errors import LabError, first_line
from attention_lab.files.regular_files import is_folder, read_regular
from attention_lab.sizes import KIND_OF_DATA

ANY_TYPE = ("trainer.devices", "pooling.baseline")
"""Options that accept values of other types than their default's."""
LARGEST_FILE = 1 << 20
"""Largest file of a choice in bytes."""
OPTIONAL = ("debug", "experiment", "launcher", "sweep")
"""Groups from which nothing is chosen by default."""
RARE = {
    "mechanism": "experiment=efficiency",
    "encoder": "experiment=crossover",
    "task": "model=seq2seq, transformer or image2seq",
    "search": "sweep=optuna sweep.space=...",
    **dict.fromkeys(NESTED_GROUPS, "sweep=optuna"),
}
"""Groups that only some choices have, and which ones do."""


def check_arguments(arguments: Sequence[str], root: Path, *more: Path) -> None:
    """Reject unknown options, values of another type than the default, and removing what runs need.

    The defaults come from the configuration in `root`, composed with the choices in the arguments; `more` are
    folders with further choices.

    Raises:
        LabError: an option is invalid; the message names it and says what would be valid.
    """
    folders = (root, *more)
    given = [parse_override(text) for text in arguments]
    chosen = [one for one in given if "/" in one.key_or_group or is_group(one.key_or_group, folders)]
    options = [one for one in given if one not in chosen and not one.is_hydra_override()]
    rare = [one for one in chosen if one.key_or_group in RARE]
    for one in given:
        if one not in rare:
            _check_deletion(one, folders)
    known = _composed(chosen, folders) if options or rare else None
    if known is None:
        return
    for one in rare:  # only now, as composing reports groups that do not exist here
        _check_deletion(one, folders)
    for one in options:
        if one.package is None:
            others = [other for other in options if other is not one]
            if key := _unknown(one, known, others):
                hint, siblings = _hint_by_name(key, known)
                hint = _hint_at_choices(key, known, chosen, folders) or hint
                listed = f"{'; ' if hint else ': '}{siblings}" if siblings else ""
                raise LabError(f"there is no option {key}{hint}{listed}")
            _check_option(one, known, others)


def choices_of(group: str, folders: Sequence[Path]) -> dict[str, Path]:
    """The choices of a group, sorted, and their files; as in Hydra, the first folder has precedence."""
    files = {path.stem: path for one in reversed(folders) for path in (one / group).glob("*.yaml")}
    return dict(sorted(files.items()))


def read_choice(path: Path) -> Any:
    """The content of the file of a choice. Raises LabError, naming file and line, if it cannot be read."""
    try:
        content = OmegaConf.create(read_regular(path, LARGEST_FILE).decode())
        if OmegaConf.is_dict(content):
            return content
        problem = ": it is a list, not options"
    except OSError as error:
        problem = f": {error.strerror}"
    except UnicodeDecodeError:
        problem = ": it is not UTF-8"
    except MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        problem = f":{line}: {error.problem}"
    except (YAMLError, OmegaConfBaseException, RecursionError) as error:
        problem = f": {first_line(error)}"
    raise LabError(f"{path}{problem}")


def is_group(name: str, folders: Sequence[Path]) -> bool:
    """Whether a group of this name is in one of the configuration folders."""
    return re.fullmatch(r"\w+", name) is not None and any(is_folder(one / name) for one in folders)


def _composed(chosen: Sequence[Override], folders: tuple[Path, ...]) -> Defaults | None:
    """The configuration composed with these choices; None if it cannot be composed, which Hydra will report.

    Raises:
        LabError: a choice is from a group that the other choices do not have.
    """
    try:
        return _defaults(folders, *(_first_choice(one) for one in chosen))
    except (HydraException, OmegaConfBaseException) as error:
        for one in chosen:
            group = one.key_or_group
            missing = (f"Could not override '{group}'", f"Could not delete '{group}'")
            if group in RARE and str(error).startswith(missing):
                raise LabError(
                    f"{one.input_line}: there is no {group} to choose here: "
                    f"leave it out, or choose {RARE[group]}"
                ) from None
        return None


@cache
def _defaults(folders: tuple[Path, ...], *chosen: str) -> Defaults:
    """The configuration composed with these choices."""
    root, *more = folders
    paths = [quote(f"file://{one}") for one in more]
    overrides = [f"hydra.searchpath=[{','.join(paths)}]"] if paths else []
    with initialize_config_dir(config_dir=str(root), job_name="train", version_base="1.3"):
        composed: Any = OmegaConf.to_container(compose("config", [*overrides, *chosen]), resolve=False)
    return composed  # type: ignore[no-any-return]


def _first_choice(one: Override) -> str:
    """A choice as it was given; in a sweep the first one, since all its choices must have the options."""
    if isinstance(one.value(), ChoiceSweep):
        return f"{one.get_key_element()}={next(one.sweep_string_iterator())}"
    return str(one.input_line)


def _check_deletion(one: Override, folders: Sequence[Path]) -> None:
    """Reject leaving out a group or an option of ours that runs need, as in `~logger`."""
    root, key = folders[0], one.key_or_group
    if not one.is_delete() or one.package or one.is_hydra_override() or key in OPTIONAL:
        return
    if (root / key).is_dir():
        known = ", ".join(choices_of(key, folders))
        raise LabError(f"{one.input_line}: {key} cannot be left out: choose {key}={known}")
    if key in read_choice(root / "config.yaml"):
        raise LabError(f"{one.input_line}: {key} cannot be left out: set it with {key}=...")


def _unknown(one: Override, known: Defaults, others: Sequence[Override]) -> str:
    """The option if it does not exist (after `+`: its top-level part); empty if `others` add or use it."""
    key, top = one.key_or_group, part_of(one.key_or_group)
    if any(key == other.key_or_group or key.startswith(f"{other.key_or_group}.") for other in others):
        return ""
    if not (one.is_add() or one.is_force_add()):
        paths = [key]
        if isinstance(_select(known, key)[1], Mapping) and isinstance(value := one.value(), Mapping):
            paths += [path for path, _ in flatten(value, f"{key}.")]
        return next((path for path in paths if not _select(known, path)[0]), "")
    texts = [json.dumps(known, default=str), *(str(other.input_line) for other in others)]
    used = any(f"${{{top}" in text for text in texts)
    return "" if top in known or used else top


def _check_option(one: Override, known: Defaults, others: Sequence[Override]) -> None:
    """Reject a `+` before an option that exists, values of another type, and leaving out what is needed."""
    key = one.key_or_group
    found, default = _select(known, key)
    if one.is_delete() and (group := key.replace(".", "/")) in NESTED_GROUPS:
        raise LabError(f"{one.input_line}: {key} cannot be left out: choose another with {group}=...")
    # To delete it, Hydra would look up the run's folder before it is known.
    in_folder = isinstance(default, str) and "${hydra:" in default
    if one.is_delete() and (in_folder or key.endswith("._target_") or key.startswith("monitor.")):
        raise LabError(f"{one.input_line}: {key} cannot be left out: set it with {key}=...")
    if one.is_add() and default is not None and not isinstance(one.value(), dict | list):
        raise LabError(f"the option {key} already exists: leave out the + before it")
    # The options of a class given on the command line may have other types.
    names = [other.key_or_group for other in others]
    given_classes = tuple(name.removesuffix("_target_") for name in names if name.endswith("._target_"))
    if found and not key.startswith(given_classes) and not one.is_delete() and key not in ANY_TYPE:
        for value in listed_values(one):
            _check_comma(one, value, default)
            check_value(key, value, default)


def _check_comma(one: Override, value: Any, default: Any) -> None:
    """Reject a number with a comma in it, such as `0,001` or `10,000`: Hydra reads two values."""
    # Hydra reads digits after a leading zero as text.
    digits = isinstance(value, str) and re.fullmatch(r"0\d+", value)
    if digits and one.is_sweep_override() and isinstance(default, int | float):
        raise LabError(
            f"{one.input_line} has several values: write a decimal number with a point, such as 0.5, and a "
            "large number without commas, such as 10000"
        )


def _hint_at_choices(key: str, known: Defaults, chosen: Sequence[Override], folders: Sequence[Path]) -> str:
    """Say which choices have an unknown option, or the option it probably means; empty if none has it."""
    meant = _usual_name(key)
    group, _, option = meant.partition(".")
    taken = meant == key and any(other.key_or_group == group for other in chosen)
    named = _select(known, meant)[0] or _select(known, SIBLINGS.get(key, ""))[0]
    if taken or named or not is_group(group, folders):
        return ""
    files = {name: read_choice(path) for name, path in choices_of(group, folders).items()}
    owners = [name for name, file in files.items() if option in [*(file.get(group) or file)]]
    it = "it" if meant == key else meant
    if owners and group in RARE:
        return f"; choose {RARE[group]} for {it}"
    return f"; {group}={', '.join(owners)} {'has' if len(owners) == 1 else 'have'} {it}" if owners else ""


def _usual_name(key: str) -> str:
    """The option meant by a name from elsewhere: `model.heads` for `num_heads` and `model.num_heads`."""
    group, _, option = key.partition(".")
    meant = OPTIONS.get(option, "")
    return OPTIONS.get(key) or (meant if meant.startswith(f"{group}.") else key)


def _select(known: Defaults, key: str) -> tuple[bool, Any]:
    """Whether an option exists, and its default."""
    node: Any = known
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False, None
        node = node[part]
    return True, node


def _hint_by_name(key: str, known: Defaults) -> tuple[str, str]:
    """Options similar to an unknown one; if there are none, how to add it, and the options of its part."""
    if _select(known, sibling := SIBLINGS.get(key, ""))[0]:
        return f"; did you mean {sibling}?", ""
    node: Any = known
    before, rest = [], key.split(".")
    while isinstance(node, Mapping) and rest[0] in node:
        node = node[rest[0]]
        before.append(rest.pop(0))
    options = node if isinstance(node, Mapping) else {}
    names = [str(name) for name in options if str(name)[0] != "_" and name not in KIND_OF_DATA.values()]
    near = difflib.get_close_matches(rest[0], names, 1, cutoff=0.75 if before else 0.6)
    meant = OPTIONS.get(key) or OPTIONS.get(rest[0], "")
    if key not in OPTIONS and (name := meant.rpartition(".")[2]) in names:  # as in the part that was typed
        meant = ".".join([*before, name])
    if key in OPTIONS or _select(known, meant)[0]:
        return f"; did you mean {meant}?", ""
    if not before and (paths := _paths_that_end_in(key, known, similar=not near)):
        return f"; did you mean {' or '.join(paths)}?", ""
    if near:
        return f"; did you mean {'.'.join([*before, near[0], *rest[1:]])}?", ""
    if not before:
        return f": choose one of {', '.join(names)}", ""
    # In another part; only a part without options of its own hints at names that are merely similar.
    paths = [rest[0]] if rest[0] in known else _paths_that_end_in(rest[0], known, similar=not names)
    if paths:
        return f"; did you mean {' or '.join(paths)}?", ""
    part = ".".join(before)
    hint = f": if the class of {part} takes it, add it with +{key}=..." if "_target_" in options else ""
    return hint, f"{part} has {', '.join(names) or 'none'}"


def _paths_that_end_in(name: str, known: Defaults, *, similar: bool) -> list[str]:
    """The options inside groups that have this name, such as `optimizer.lr` for `lr`.

    If there are none, and `similar` is set, those with a similar name.
    """
    kinds = [f"{part}.{kind}" for part, kind in KIND_OF_DATA.items()]
    last = {path: path.rpartition(".")[2] for path, _ in flatten(known) if "." in path and path not in kinds}
    wanted = name if name in last.values() or not similar else closest(name, last.values())
    return [path for path, end in last.items() if end == wanted and not is_hydra_key(path)]
