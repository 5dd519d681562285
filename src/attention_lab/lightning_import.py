"""Import Lightning without the optional packages that it would import merely because they are installed."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError
from typing import Any

_OPTIONAL = frozenset({"scipy", "matplotlib"})
_EVERYTHING = DistributionFinder.Context()


def import_lightning() -> None:
    """Import pytorch_lightning in two thirds of the usual CPU time.

    Lightning imports torchmetrics, which imports scipy and matplotlib if they are installed. That takes a
    third of the CPU time of `import pytorch_lightning`. torchmetrics needs them for audio metrics and to
    plot metrics, which no run here does. During the import they appear not to be installed; afterwards
    everything but torchmetrics can import them.
    """
    if sys.modules.keys() & {"torchmetrics", *_OPTIONAL}:  # too late to save anything
        return
    with _hidden():
        import pytorch_lightning  # noqa: F401


@contextmanager
def _hidden() -> Iterator[None]:
    finder = _Hiding()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Hiding(DistributionFinder):
    """Makes the optional packages look missing, both to imports and to queries for their version."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Find nothing, and stop the search for hidden packages."""
        if fullname.partition(".")[0] in _OPTIONAL:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def find_distributions(self, context: DistributionFinder.Context = _EVERYTHING) -> Iterable[Distribution]:
        """Do the same for a package's metadata."""
        if context.name in _OPTIONAL:
            raise PackageNotFoundError(context.name)
        return ()
