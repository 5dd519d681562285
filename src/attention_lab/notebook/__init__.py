"""Show attention in notebooks, files and papers, with `show`."""

from attention_lab.notebook.showing import show
from attention_lab.notebook.view import View

__all__ = ["View", "show"]
