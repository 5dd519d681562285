"""Report errors raised while an experiment is built in one line that names the option to blame."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from types import FrameType
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_object
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from attention_lab.callbacks.monitored_metric import not_measured
from attention_lab.commandline.option_paths import flatten, is_hydra_key, lookup
from attention_lab.console_text import one_line
from attention_lab.errors import LabError, first_line, is_out_of_memory
from attention_lab.experiment.part_options import BUILD_ERRORS, not_an_option, targets_of, wrong_options
from attention_lab.experiment.target_errors import explain_target, missing_target
from attention_lab.sizes import KIND_OF_DATA

CONSTRUCTORS = ("__init__", "__post_init__")
"""Methods that build a part; data is also built in its `setup`."""
_FIRST = {"model": "mechanism and sizes", "schedule": "the optimizer and the number of steps"}
_OURS = ("attention_lab", "torch", "pytorch_lightning")
_LIBRARIES = ("pytorch_lightning.", "lightning_fabric.", "torch.optim.")


@contextmanager
def blame_option(config: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors raised while a part is built into a LabError that names the option, or else the part.

    The same goes for errors that Lightning or PyTorch's optimisers raise later for a value that they cannot
    use, such as a divisor of 0. All other errors, such as those in the user's code, stay unchanged.
    """
    try:
        yield
    except MisconfigurationException as error:  # raised by Lightning; its first line says what is wrong
        raise _not_measured(str(error)) or LabError(first_line(error)) from None
    except (*BUILD_ERRORS, ModuleNotFoundError) as error:
        if missing := _not_measured(str(error)):
            raise missing from None
        if is_out_of_memory(error):
            raise
        cause: BaseException = error
        while not missing_target(cause) and isinstance(cause, InstantiationException) and cause.__cause__:
            cause = cause.__cause__  # the error that Hydra has wrapped
        if "before Module.__init__() call" in str(cause):  # raised by PyTorch, whose frame has the module
            owner = type(_frames(cause)[0].f_locals["self"]).__name__
            first = "must call super().__init__() before it sets attributes"
            raise LabError(f"{owner}.__init__ {first}") from None
        targets = targets_of(config)
        part = _part_to_blame(error, cause, targets, config)
        if part is None or _raised_in_user_code(cause, targets[part]):
            raise
        raise LabError(_message(cause, part, config, targets[part])) from cause


def _frames(error: BaseException) -> list[FrameType]:
    """The frames in which an error was raised, the innermost first."""
    return [frame for frame, _ in walk_tb(error.__traceback__)][::-1]


def _part_to_blame(
    error: BaseException, cause: BaseException, targets: Mapping[str, str], config: Mapping[str, Any]
) -> str | None:
    """The part that was being built, or the part whose library raised the error; None if there is neither."""
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
    """The name of the class that defines the constructor, which may be a base class; None for a function."""
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
        return not_an_option(part, unknown, target, configured)
    wrong = wrong_options(part, config, target)
    if len(wrong) == 1:
        return wrong[0]
    words = set(re.split(r"[^\w.+-]+|[.]$|[.] ", text))
    named = [
        f"{part}.{path}={'null' if value is None else value}"
        for path, value in flatten(lookup(config, *part.split(".")))
        if not is_hydra_key(path)
        and ("NoneType" in words if value is None else value not in (True, False) and str(value) in words)
    ]
    return f"{named[0] if len(named) == 1 else part}: {type(error).__name__}: {text}"


# Each has a single start and literal text after what varies: in a file from others, the name of a metric may
# repeat parts of the message, and then a search takes hours.
_NOT_MEASURED = (
    r"`ModelCheckpoint\(monitor=['\"](.*?)['\"]\)` could not find the monitored key in the returned metrics: "
    r"\[(.*?)\]",
    r"Early stopping conditioned on metric `(.*?)` which is not available\. Pass in or modify your "
    r"`EarlyStopping` callback to use any of the following: (`.*`)",
)


def _not_measured(text: str) -> LabError | None:
    """The error if Lightning's message says that the monitored metric is not measured; None for others."""
    found = next(filter(None, (re.match(pattern, text) for pattern in _NOT_MEASURED)), None)
    return found and not_measured(found[1], re.findall(r"['`]([^'`, ]+)['`]", found[2]))
