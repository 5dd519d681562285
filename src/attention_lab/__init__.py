"""attention-lab: train, see and compare attention mechanisms.

`load` rebuilds a trained model from its checkpoint, `pretrained` returns one that comes with the package,
`recording` gives the weights of every attention in any model, `show` draws them, `replace_attention` puts any
mechanism into a model, and `MultiheadAttention` is a drop-in replacement for torch's. Each is imported on
first use, so importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attention_lab.attention.recording import recording
    from attention_lab.attention.replacing import replace_attention
    from attention_lab.attention.torch_multihead import MultiheadAttention
    from attention_lab.experiment.checkpoints import load
    from attention_lab.inference.pretrained import pretrained
    from attention_lab.notebook import show

__all__ = ["MultiheadAttention", "load", "pretrained", "recording", "replace_attention", "show"]

_HOMES = {
    "MultiheadAttention": "attention_lab.attention.torch_multihead",
    "load": "attention_lab.experiment.checkpoints",
    "pretrained": "attention_lab.inference.pretrained",
    "recording": "attention_lab.attention.recording",
    "replace_attention": "attention_lab.attention.replacing",
    "show": "attention_lab.notebook",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # here, since it slows down the import

    try:
        return version("attention-lab")
    except PackageNotFoundError as error:
        raise AttributeError("attention-lab is not installed, only found by its path: no version") from error
