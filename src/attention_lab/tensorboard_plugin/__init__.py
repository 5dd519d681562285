"""The Attention tab of TensorBoard: `add_attention` writes its data, and the plugin serves them.

TensorBoard imports this package when it starts, so modules are loaded only when they are needed.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attention_lab.tensorboard_plugin.codec import decode, encode
    from attention_lab.tensorboard_plugin.record import AttentionRecord, Ink
    from attention_lab.tensorboard_plugin.writer import add_attention, write_record

__all__ = ["PLUGIN", "STATIC", "AttentionRecord", "Ink", "add_attention", "decode", "encode", "write_record"]

PLUGIN = "attention_lab"
"""The plugin's name, in the logs and in the URLs of its requests."""
STATIC = Path(__file__).parent / "static"
"""The folder with the files of its pages."""

_HOMES = {
    "AttentionRecord": "record",
    "Ink": "record",
    "decode": "codec",
    "encode": "codec",
    "add_attention": "writer",
    "write_record": "writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
