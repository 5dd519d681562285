"""Import Lightning without the optional packages that it would import merely because they are installed."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError
from typing import Any

_OPTIONAL = frozenset(
    {
        *("matplotlib", "scipy", "torchaudio", "torchvision", "transformers"),
        *("aeon", "bert_score", "faster_coco_eval", "gammatone", "librosa", "lpips", "nltk", "piq"),
        *("pycocotools", "pystoi", "pyTDC", "scienceplots", "torch_fidelity"),
    }
)
"""Packages that torchmetrics imports if they are installed: slow ones, and those that may need them."""
_LIGHTNING = frozenset({"pytorch_lightning", "lightning_fabric", "torchmetrics"})
_NEEDING_NONE = frozenset({"attention_lab", "hydra", "hydra_plugins", "optuna", "pytorch_lightning", "torch"})
_EVERYTHING = DistributionFinder.Context()


def import_lightning() -> None:
    """Import pytorch_lightning in half of the usual CPU time.

    Lightning imports torchmetrics, which imports scipy, matplotlib, transformers and others if they are
    installed. That can take more than half of the CPU time of `import pytorch_lightning`. torchmetrics needs
    them for metrics that no run here uses, and to plot metrics. During the import they appear not to be
    installed; afterwards everything but torchmetrics can import them. So do not call this before a user's
    own code, which may use those metrics: see `names_other_packages`. If Lightning turns out to need one of
    them, as some versions may, it is imported in full.
    """
    if sys.modules.keys() & {"torchmetrics", *_OPTIONAL}:  # too late to save anything
        return
    before = set(sys.modules)
    try:
        with _hidden():
            import pytorch_lightning
    except ModuleNotFoundError:  # it, or a package that it imports, needs one of them after all
        for name in sys.modules.keys() - before:
            if name.partition(".")[0] in _LIGHTNING:
                del sys.modules[name]  # so that no package stays half imported
        import pytorch_lightning  # noqa: F401


def names_other_packages(config: Any) -> bool:
    """Whether a configuration names a class from a user's own package, which may use any metric."""
    if isinstance(config, dict):
        target = config.get("_target_")
        foreign = isinstance(target, str) and target.partition(".")[0] not in _NEEDING_NONE
        return foreign or any(map(names_other_packages, config.values()))
    return isinstance(config, list) and any(map(names_other_packages, config))


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
