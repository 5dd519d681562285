"""The entry point through which TensorBoard loads the plugin; it needs only this module to start."""

import argparse
import logging
from typing import Any

from tensorboard.plugins import base_plugin

from attention_lab.tensorboard_plugin import PLUGIN

_logger = logging.getLogger(__name__)


class Loader(base_plugin.TBLoader):  # type: ignore[misc]
    """Makes the plugin; if that fails, TensorBoard starts without it."""

    def fix_flags(self, flags: argparse.Namespace) -> None:
        """Keep every step, unless the command line says otherwise; the default is ten steps per tag."""
        samples = getattr(flags, "samples_per_plugin", None)
        if isinstance(samples, dict):
            samples.setdefault(PLUGIN, 0)  # 0 means all

    def load(self, context: base_plugin.TBContext) -> Any:
        """Return the plugin, or None with a warning if something that it needs cannot be imported."""
        try:
            from attention_lab.tensorboard_plugin.plugin import AttentionPlugin
        except (ImportError, AttributeError) as error:
            _logger.warning("The Attention tab is not available: %s", error)
            return None
        return AttentionPlugin(context)
