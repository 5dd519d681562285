"""Why a class given as `_target_` cannot be imported or used: a misspelt name, or an error in the file."""

import re
import sys
import traceback
from functools import partial
from pkgutil import iter_modules
from typing import Any, TypeVar

from hydra.errors import InstantiationException

from attention_lab.constructor_options import closest
from attention_lab.errors import LabError, first_line, named_line
from attention_lab.files.paths import short_path

T = TypeVar("T")


def missing_target(error: BaseException) -> str | None:
    """The dotted path of the class that Hydra could not import; None for other errors."""
    found = re.match(r"Error locating target '(.*?)'", str(error))
    return found[1] if found and isinstance(error, InstantiationException) else None


def checked_kind(path: str, made: object, kind: type[T], name: str) -> T:
    """An object made from a configuration. Raises LabError for the wrong class, which would fail later.

    Args:
        path: the option that names its class.
        made: the object.
        kind: the required class.
        name: the name of the required class.
    """
    if not isinstance(made, kind):
        raise _another_kind(path, type(made), name)
    return made


def make_checked(path: str, make: partial[Any], kind: type[T], name: str) -> T:
    """Make an object; see `checked_kind`. A class of another kind is not called."""
    if isinstance(make.func, type) and not issubclass(make.func, kind):
        raise _another_kind(path, make.func, name)
    try:
        made = make()
    except TypeError as error:
        code = getattr(make.func, "__code__", None)
        inside = any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))
        if isinstance(make.func, type) or inside:
            raise
        raise LabError(f"{path}: {first_line(error)}") from None
    return checked_kind(path, made, kind, name)


def _another_kind(path: str, found: type, name: str) -> LabError:
    return LabError(f"{path}: {found.__name__} is not {'an' if name[0] == 'a' else 'a'} {name}")


def explain_target(error: BaseException, target: str) -> str:
    """Say why `target` cannot be imported: which name does not exist, or which line of which file fails."""
    found = error.__cause__ or error  # an error of Hydra, caused by the one that the import has raised
    cause = found.__cause__ or found
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{short_path(cause.filename)}, line {cause.lineno}: {type(cause).__name__}: {cause.msg}"
    if place := _place(cause, target):
        return f"{place}: {named_line(cause)}"
    missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if isinstance(cause, AttributeError) or (missing and f"{target}.".startswith(f"{missing}.")):
        return _missing_name(target)
    return named_line(cause)


def _missing_name(target: str) -> str:
    """Name the first part of a dotted path that does not exist, and the name that was probably meant."""
    names = target.split(".")
    count = next((n for n in range(len(names) - 1, 0, -1) if ".".join(names[:n]) in sys.modules), 0)
    owner: object = sys.modules.get(".".join(names[:count]))
    modules = {module.name for module in iter_modules(getattr(owner, "__path__", ()) if count else None)}
    if count == 0 or (count < len(names) - 1 and not hasattr(owner, names[count])):
        if count == 0:
            modules -= sys.stdlib_module_names  # they have no parts: `scores` does not mean `secrets`
        near = closest(names[count], modules)
        hint = _hint(near and ".".join([*names[:count], near]))
        searched = "" if count else " beside train.py, in PYTHONPATH or installed"
        return f"there is no module {'.'.join(names[: count + 1])}{searched}{hint}"
    while count < len(names) - 1 and hasattr(owner, names[count]):
        owner, count = getattr(owner, names[count]), count + 1
    near = closest(names[count], {*dir(owner), *getattr(owner, "__all__", ()), *modules})
    return f"{'.'.join(names[:count])} has no {names[count]}{_hint(near)}"


def _hint(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""


def _place(error: BaseException, target: str) -> str | None:
    """The file and line of the user's own code that an error comes from; None if none was running."""
    package = target.partition(".")[0]
    found, own = None, None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        if module in ("hydra", "importlib", "attention_lab"):
            continue
        found = f"{short_path(frame.f_code.co_filename)}, line {line}"
        own = found if module == package else own
    return own or found
