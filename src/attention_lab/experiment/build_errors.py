"""Report errors raised while an experiment is built in one line that names the option to blame."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from traceback import walk_tb
from types import FrameType
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_object
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from attention_lab.argument_checks import allowed_types, alternatives, option_types, wrong_types
from attention_lab.attention.part_checks import kind_of_part
from attention_lab.callbacks.monitored_metric import not_measured
from attention_lab.commandline.option_paths import flatten, is_hydra_key, lookup
from attention_lab.commandline.overrides import as_text
from attention_lab.config_parts import MECHANISM
from attention_lab.console_text import one_line
from attention_lab.constructor_options import closest
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, first_line, is_out_of_memory
from attention_lab.experiment.target_errors import explain_target, missing_target
from attention_lab.sizes import KIND_OF_DATA
from attention_lab.untrusted.run_parts import SUBPACKAGES, wrong_class

CONSTRUCTORS = ("__init__", "__post_init__")
"""Methods that build a part; data is also built in its `setup`."""
BUILD_ERRORS = (*BAD_VALUE_ERRORS, InstantiationException)
"""Errors that classes raise for values they cannot use, and Hydra for a class it cannot find."""
PASSED = {
    "model": ("mechanism", "sizes"),
    "scoring": ("query_size", "key_size", "heads"),
    "window": ("query_size", "heads"),
    "normalizer": ("heads",),
    "task": ("recipe", "optimizer", "schedule"),
}
"""Arguments of a part's constructor that are not options: the program passes them, a model's by position."""
_FIRST = {"model": "mechanism and sizes", "schedule": "the optimizer and the number of steps"}
_OURS = ("attention_lab", "torch", "pytorch_lightning")
_LIBRARIES = ("pytorch_lightning.", "lightning_fabric.", "torch.optim.")


@contextmanager
def blame_option(config: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors raised while a part is built into a LabError that names the option, or else the part.

    The same goes for errors that Lightning's code or PyTorch's optimisers raise later for a value that they
    cannot use, such as a divisor of 0. All others, such as those in the user's code, are left unchanged.
    """
    try:
        yield
    except MisconfigurationException as error:  # Lightning's; its first line says what is wrong
        raise _not_measured(str(error)) or LabError(first_line(error)) from None
    except (*BUILD_ERRORS, ModuleNotFoundError) as error:
        if missing := _not_measured(str(error)):
            raise missing from None
        if is_out_of_memory(error):
            raise
        cause: BaseException = error
        while not missing_target(cause) and isinstance(cause, InstantiationException) and cause.__cause__:
            cause = cause.__cause__  # what Hydra has wrapped
        if "before Module.__init__() call" in str(cause):  # PyTorch's, whose frame has the module
            owner = type(_frames(cause)[0].f_locals["self"]).__name__
            first = "must call super().__init__() before it sets attributes"
            raise LabError(f"{owner}.__init__ {first}") from None
        targets = _targets(config)
        part = _part_to_blame(error, cause, targets, config)
        if part is None or _raised_in_user_code(cause, targets[part]):
            raise
        raise LabError(_message(cause, part, config, targets[part])) from cause


def _targets(config: Mapping[str, Any]) -> dict[str, str]:
    """The class of each part."""
    return {
        path.removesuffix("._target_"): str(value)
        for path, value in flatten(config)
        if path.endswith("._target_")
    }


def check_part_options(config: Mapping[str, Any]) -> None:
    """Check that no part has a class of another one, or an option that the program would replace.

    Raises:
        LabError: one has; the class would fail only in the first step, and the option have no effect.
    """
    for part in SUBPACKAGES:
        target = str(lookup(config, part, "_target_"))
        with suppress(ImportError, *BUILD_ERRORS):  # the code that builds the part reports it
            if wrong := wrong_class(target, part) or _other_part(target, part):
                raise LabError(f"{part}._target_={target} {wrong}: choose a class for {part}")
    replaced = [(part, option) for part in PASSED if part != "model" for option in PASSED[part]]
    for part, option in replaced:
        if (value := lookup(config, part, option)) is not None:
            given = f"{part}.{option}={as_text(value)}"
            raise LabError(f"{given} has no effect: the program passes it; leave it out")


def _other_part(target: str, part: str) -> str:
    """Why a class, perhaps the user's own, is another part of a mechanism; empty if it is not."""
    made = get_object(target) if part in MECHANISM else None
    meant = kind_of_part(made) if isinstance(made, type) else None
    return "" if meant in (None, "score" if part == "scoring" else part) else f"is a {meant}"


def check_option_types(config: Mapping[str, Any]) -> None:
    """Check the options of our own classes against their annotations.

    A class that cannot be found is left to the code that builds the part.

    Raises:
        LabError: an option has another type; its class takes any value for true, or would fail later.
    """
    for part, target in _targets(config).items():
        with suppress(ImportError, *BUILD_ERRORS):
            if target.startswith("attention_lab.") and (wrong := _wrong_types(part, config, target)):
                raise LabError(wrong[0])


def _frames(error: BaseException) -> list[FrameType]:
    """The frames in which an error was raised, the innermost first."""
    return [frame for frame, _ in walk_tb(error.__traceback__)][::-1]


def _part_to_blame(
    error: BaseException, cause: BaseException, targets: Mapping[str, str], config: Mapping[str, Any]
) -> str | None:
    """The part that was being built, or in whose library's code the error was raised, if any."""
    if isinstance(error, InstantiationException):
        named = [part for part, target in targets.items() if f"'{target}'" in str(error)]
        # Hydra names the module that defines a class, which may be another one.
        named += [part for part, target in targets.items() if f".{target.rpartition('.')[2]}'" in str(error)]
        return next(iter(named), None)
    names = {target.rpartition(".")[2]: part for part, target in targets.items()}
    abstract = re.match(r"Can't instantiate abstract class (\w+)", str(cause))
    called = abstract or re.match(r"(\w+)(?:\.__init__)?\(\) (?:got|missing|takes)", str(cause))
    if called and called[1] in names:
        return names[called[1]]
    heirs = [part for part, target in targets.items() if called and _constructor(target) == called[1]]
    if len(heirs) == 1:
        return heirs[0]
    unknown = _unknown_option(str(cause))
    owners = [part for part in targets if unknown in lookup(config, *part.split("."))]
    if len(owners) == 1:  # its class passes the option on to another
        return owners[0]
    in_library = _raised_in_library(cause, targets)
    for frame in _frames(cause):
        part = names.get(type(frame.f_locals.get("self")).__name__)
        builders = (*CONSTRUCTORS, "setup") if part == "data" else CONSTRUCTORS
        if part is not None and (in_library or frame.f_code.co_name in builders):
            return part
    return None


def _raised_in_library(error: BaseException, targets: Mapping[str, str]) -> bool:
    """Whether an error was raised by Lightning or an optimiser, and not through the user's own package."""
    frames = [frame for frame in _frames(error) if frame.f_code is not nn.Module.__getattr__.__code__]
    return (
        bool(frames)
        and str(frames[0].f_globals.get("__name__")).startswith(_LIBRARIES)
        and not any(_raised_in_user_code(error, target) for target in targets.values())
    )


def _constructor(target: str) -> str | None:
    """The name of the class whose constructor a class has, which may be inherited; None for a function."""
    try:
        made = get_object(target)
    except BUILD_ERRORS:
        return None
    kinds = made.__mro__ if isinstance(made, type) else ()
    return next((kind.__name__ for kind in kinds if "__init__" in vars(kind)), None)


def _unknown_option(text: str) -> str | None:
    """The option that an error reports as unknown; None if it reports something else."""
    found = re.search(r"unexpected keyword argument '(\w+)'", text)
    return found and found[1]


def check_typed_option(part: str, option: str, target: str) -> None:
    """Raise LabError if an option on the command line is not one of the class of a part.

    A class that cannot be found is left to the code that builds the part.
    """
    try:
        known = option_types(get_object(target))
    except BUILD_ERRORS:
        return
    if option not in known:
        raise LabError(_no_option(part, option, target))


def checked_trainer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the trainer, with 0 and 1 as booleans where it takes no other numbers.

    Objects given by `_target_`, and the options of a class other than Lightning's own, are not checked.

    Raises:
        LabError: Lightning's Trainer has no such option, or is annotated with another type; it would ignore
            some such values, and fail on others without naming the option.
    """
    for group in ("callbacks", "logger"):
        if group in options:
            raise LabError(f"trainer.{group} has no effect: choose {group}=... instead")
    checked = dict(options)
    target = options.get("_target_")
    known = option_types(get_object(target)) if target == "pytorch_lightning.Trainer" else {}
    names = [name for name in options if not is_hydra_key(name)] if known else []
    for name in names:
        if name not in known:
            raise LabError(_not_an_option("trainer", name, str(target), names))
        if isinstance(value := options[name], Mapping):
            continue
        kinds = alternatives(known[name])
        if bool in kinds and int not in kinds and value in (0, 1):
            checked[name] = bool(value)
        elif allowed := allowed_types(value, known[name]):
            raise LabError(f"trainer.{name}={as_text(value)} must be {allowed}")
    return checked


def _not_an_option(part: str, option: str, target: str, configured: Sequence[str]) -> str:
    """The message for an option that a class does not take, with all others of this kind."""
    known, kind = option_types(get_object(target)), target.rpartition(".")[2]
    others = [name for name in configured if name not in known]
    if len(others) > 1:
        paths = [f"{part}.{name}" for name in others]
        removed = " ".join(f"~{path}" for path in paths)
        return (
            f"{', '.join(paths[:-1])} and {paths[-1]} are not options of {kind}: leave them out, or remove "
            f"those in conf/ with {removed}"
        )
    return f"{_no_option(part, option, target)}, or remove the one in conf/ with ~{part}.{option}"


def _no_option(part: str, option: str, target: str) -> str:
    near = closest(option, option_types(get_object(target)).keys() - set(PASSED.get(part, ())))
    hint = f"did you mean {part}.{near}? Or " if near else ""
    return f"{part}.{option} is not an option of {target.rpartition('.')[2]}: {hint}leave it out"


def _raised_in_user_code(error: BaseException, target: str) -> bool:
    """Whether an error was raised in the user's own package, so that its traceback is useful."""
    package = target.partition(".")[0]
    modules = (str(frame.f_globals.get("__name__")) for frame in _frames(error))
    return package not in _OURS and any(module.partition(".")[0] == package for module in modules)


def _message(error: BaseException, part: str, config: Mapping[str, Any], target: str) -> str:
    text = one_line(error)[:300]
    if missing_target(error):
        return f"{part}._target_={target}: {explain_target(error, target)}"
    if isinstance(error, InstantiationException):
        return f"{part}._target_={target}: {text}"
    unknown = _unknown_option(text)
    configured = [
        name
        for name in lookup(config, *part.split("."))
        if not is_hydra_key(name) and name != KIND_OF_DATA.get(part)
    ]
    if unknown and unknown not in configured:
        return (
            f"{part}._target_={target}: its constructor must also take {unknown}, which the program "
            "passes besides the options"
        )
    if part in _FIRST and re.search(r"takes \d+ positional|got multiple values", text):
        first = f"it must take {_FIRST[part]} first, which the program passes besides the options"
        return f"{part}._target_={target}: {first}"
    if unknown:
        return _not_an_option(part, unknown, target, configured)
    wrong = _wrong_types(part, config, target)
    if len(wrong) == 1:
        return wrong[0]
    words = re.split(r"[^\w.+-]+|[.]$|[.] ", text)
    named = [
        f"{part}.{path}={'null' if value is None else value}"
        for path, value in flatten(lookup(config, *part.split(".")))
        if not is_hydra_key(path)
        and ("NoneType" in words if value is None else value not in (True, False) and str(value) in words)
    ]
    return f"{named[0] if len(named) == 1 else part}: {type(error).__name__}: {text}"


def _wrong_types(part: str, config: Mapping[str, Any], target: str) -> list[str]:
    """What each option of a wrong type must be, as its class is annotated."""
    options = lookup(config, *part.split("."))
    wrong = wrong_types(get_object(target), options)
    return [f"{part}.{name}={as_text(options[name])} must be {allowed}" for name, allowed in wrong.items()]


def _not_measured(text: str) -> LabError | None:
    """The error if Lightning's message says that the monitored metric is not measured; None for others."""
    found = re.search(r"ModelCheckpoint\(monitor='(.*?)'\).*?returned metrics: \[(.*?)\]", text) or re.search(
        r"Early stopping conditioned on metric `(.*?)`.*following: (`.*`)", text
    )
    return found and not_measured(found[1], re.findall(r"['`]([^'`, ]+)['`]", found[2]))
