"""Lightning imported without what it would import only because it is installed."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError
from typing import Any

_OPTIONAL = frozenset({"scipy", "matplotlib"})
_EVERYTHING = DistributionFinder.Context()


def import_lightning() -> None:
    """Import pytorch_lightning, a third faster.

    torchmetrics, which Lightning imports, imports scipy and matplotlib wherever they are installed: a
    third of the CPU time of `import pytorch_lightning`. It needs them for metrics of sound and to plot
    metrics, which no run here does. While it is imported they look as if they were not installed;
    afterwards all can import them, and only torchmetrics goes without.
    """
    if sys.modules.keys() & {"torchmetrics", *_OPTIONAL}:  # there is nothing to save any more
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
    """Says of the optional packages that they are not there, whether code asks by import or by version."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Find nothing, and let nobody else find what is hidden."""
        if fullname.partition(".")[0] in _OPTIONAL:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def find_distributions(self, context: DistributionFinder.Context = _EVERYTHING) -> Iterable[Distribution]:
        """Likewise for the metadata of a package."""
        if context.name in _OPTIONAL:
            raise PackageNotFoundError(context.name)
        return ()
