"""Attention where people work: `show` gives a view for notebooks, files and papers."""

from attention_lab.notebook.showing import show
from attention_lab.notebook.view import View

__all__ = ["View", "show"]
