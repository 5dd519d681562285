"""Import the modules of a package only when one of its names is used."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Sequence[str], modules: Sequence[str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package, so that a module in it can be imported without all the others.

    Args:
        package: its name.
        names: the names that it offers, its `__all__`.
        modules: the modules that define them, relative to the package.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in names:
            for module in modules:
                found = import_module(f"{package}.{module}")
                if name in vars(found):
                    return vars(found)[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
