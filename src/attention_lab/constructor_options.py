"""Constructors whose options are the fields of a dataclass, so names, docs and defaults are written once."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from os import PathLike
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from attention_lab.argument_checks import allowed_types, alternatives, kind_of

Options = ParamSpec("Options")
Spec_co = TypeVar("Spec_co", covariant=True)
Self = TypeVar("Self")
First = TypeVar("First")
Second = TypeVar("Second")


class Decorator(Protocol[Spec_co, Options]):
    """Replaces a constructor's last parameter, a spec, with the fields of the spec as options."""

    @overload
    def __call__(
        self, init: Callable[[Self, Spec_co], None], /
    ) -> Callable[Concatenate[Self, Options], None]: ...

    @overload
    def __call__(
        self, init: Callable[[Self, First, Spec_co], None], /
    ) -> Callable[Concatenate[Self, First, Options], None]: ...

    @overload
    def __call__(
        self, init: Callable[[Self, First, Second, Spec_co], None], /
    ) -> Callable[Concatenate[Self, First, Second, Options], None]: ...


def options_of(spec: Callable[Options, Spec_co]) -> Decorator[Spec_co, Options]:
    """Let a constructor take the fields of the dataclass `spec` as options and receive them as one object.

    Type checkers, editors and `help` show the options with their types and defaults.

    For example:

        class Model(nn.Module):
            @options_of(ModelSpec)
            def __init__(self, mechanism: Mechanism, spec: ModelSpec) -> None: ...

        Model(mechanism, d_model=8)  # spec is ModelSpec(d_model=8)

    Raises:
        TypeError: in the constructor, for a missing or an unknown option (for an unknown one the message
            suggests the option that was probably meant, or lists all), or for an argument that is annotated
            with a dataclass, bool or str and is something else, or with float and is None.
    """
    make: Callable[..., Spec_co] = spec

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        """Give `init` a signature that lists the fields of `spec` as options."""
        *own, _ = inspect.signature(init).parameters.values()
        names = [parameter.name for parameter in own]
        signature = inspect.Signature([*own, *inspect.signature(spec).parameters.values()])

        @wraps(init)
        def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807  (as tracebacks name it)
            try:
                given = signature.bind(self, *args, **options).arguments
            except TypeError as error:
                unknown = [option for option in options if option not in signature.parameters]
                hint = _hint(unknown[0], list(signature.parameters)[1:]) if unknown else ""
                raise TypeError(f"{type(self).__name__}.__init__() {error}{hint}") from None
            before = [given.pop(name) for name in names]
            for parameter, argument in zip(own[1:], before[1:], strict=True):
                _check_argument(type(self).__name__, parameter, argument)
            for name, argument in given.items():
                given[name] = _checked(type(self).__name__, signature.parameters[name], argument)
            init(*before, make(**given))

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        __init__.spec = spec  # type: ignore[attr-defined]
        return __init__

    return decorate


def _hint(unknown: str, options: Sequence[str]) -> str:
    """The option that was probably meant, or else all options."""
    near = closest(unknown, options)
    return f"; did you mean {near!r}?" if near else f"; the options are {', '.join(options)}"


def _check_argument(owner: str, parameter: inspect.Parameter, argument: object) -> None:
    """Raise TypeError if a parameter is annotated with a dataclass, but the argument is something else."""
    name, kind = parameter.name, parameter.annotation
    if not (isinstance(kind, type) and is_dataclass(kind)) or isinstance(argument, kind):
        return
    hint = ""
    if isinstance(argument, type):
        required = [one for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
        hint = f": write {kind.__name__}({argument.__name__})" if len(required) == 1 else ""
    elif isinstance(getattr(argument, name, None), kind):
        hint = f": give its .{name}"
    raise TypeError(f"{owner}: {name} must be a {kind.__name__}, not {kind_of(argument)}{hint}")


def _checked(owner: str, parameter: inspect.Parameter, argument: object) -> object:
    """The argument, 0 and 1 as a bool where that is expected.

    Raises:
        TypeError: the option is annotated as bool or str, but the argument is something else, or it is
            annotated as float, but the argument is None.
    """
    if parameter.annotation is bool:
        if argument not in (True, False):
            raise TypeError(f"{owner}: {parameter.name} must be True or False, not {argument!r}")
        return bool(argument)
    if parameter.annotation is float and argument is None:
        raise TypeError(f"{owner}: {parameter.name} must be a number, not None")
    if parameter.annotation is str and not isinstance(argument, str | PathLike):
        raise TypeError(f"{owner}: {parameter.name} must be text, not {argument!r}")
    return argument


def make_spec(specs: Mapping[str, type[Any]], package: str, part: Mapping[str, Any]) -> Any:
    """Build the spec for a part of the configuration without importing the class that takes it.

    Args:
        specs: the spec of each class of `package`, by the name of the class.
        package: the package that defines the classes.
        part: the options, with the class as `_target_`.

    Returns:
        The spec; None if the class has none, or if an option is missing or has the wrong type, such as a path
        that is not text; constructing the class will report that.

    Raises:
        LabError: the spec rejects an option.
    """
    module, _, name = str(part.get("_target_")).rpartition(".")
    if name not in specs or not f"{module}.".startswith(f"{package}."):
        return None
    known = {field.name: field.type for field in fields(specs[name])}
    given = {option: value for option, value in part.items() if option in known}
    for option, value in given.items():
        if str in alternatives(known[option]) and allowed_types(value, known[option]):
            return None
    try:
        return specs[name](**given)
    except (TypeError, ValueError, AttributeError):
        return None


def closest(name: str, options: Iterable[str]) -> str | None:
    """The option most similar to an unknown name; None if none is close."""
    return next(iter(difflib.get_close_matches(name, options, 1, cutoff=0.75)), None)


def common_options(spec: Any, kind: type[Any]) -> dict[str, Any]:
    """The options of a spec, by name, that specs of type `kind` also have."""
    return {field.name: getattr(spec, field.name) for field in fields(kind) if hasattr(spec, field.name)}
