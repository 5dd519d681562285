"""Import the modules of a package only when one of its names is used."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Sequence[str], modules: Sequence[str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package, so that one of its modules can be imported without the others.

    Args:
        package: the package's name.
        names: its public names, `__all__`.
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
