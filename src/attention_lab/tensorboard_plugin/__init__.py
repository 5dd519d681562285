"""The Attention tab of TensorBoard: `add_attention` writes its data, and the plugin serves them.

TensorBoard imports this package when it starts, so modules are loaded only when they are needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from attention_lab.lazy_names import lazy_names

if TYPE_CHECKING:
    from attention_lab.tensorboard_plugin.codec import decode, encode
    from attention_lab.tensorboard_plugin.record import AttentionRecord, Ink
    from attention_lab.tensorboard_plugin.writer import add_attention, write_record

__all__ = ["PLUGIN", "STATIC", "AttentionRecord", "Ink", "add_attention", "decode", "encode", "write_record"]

PLUGIN = "attention_lab"
"""The plugin's name, in the logs and in the URLs of its requests."""
STATIC = Path(__file__).parent / "static"
"""The folder with the files of its pages."""

__getattr__ = lazy_names(__name__, __all__, ["record", "codec", "writer"])
