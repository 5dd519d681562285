"""What TensorBoard finds by this package's entry point, and the only module that it needs to start."""

import argparse
import logging
from typing import Any

from tensorboard.plugins import base_plugin

from attention_lab.tensorboard_plugin import PLUGIN

_logger = logging.getLogger(__name__)


class Loader(base_plugin.TBLoader):  # type: ignore[misc]
    """Make the plugin, or do without it: TensorBoard itself always starts."""

    def fix_flags(self, flags: argparse.Namespace) -> None:
        """Keep every step, unless the command line says otherwise: the default is ten of each tag."""
        samples = getattr(flags, "samples_per_plugin", None)
        if isinstance(samples, dict):
            samples.setdefault(PLUGIN, 0)  # 0 is all

    def load(self, context: base_plugin.TBContext) -> Any:
        """The plugin, or None with a warning where something that it needs cannot be imported."""
        try:
            from attention_lab.tensorboard_plugin.plugin import AttentionPlugin
        except (ImportError, AttributeError) as error:
            _logger.warning("There is no Attention tab: %s", error)
            return None
        return AttentionPlugin(context)
