"""The topics: files that define `comparisons`, `growth` or `tables`, found without importing them."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

RESULTS = Path(__file__).parents[1]
"""The folder of the results."""
_MAKERS = {"comparisons", "growth", "tables"}


def topics() -> dict[str, str]:
    """The heading of each topic, by its name."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if _MAKERS & {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            found[path.stem] = (ast.get_docstring(tree) or path.stem).splitlines()[0]
    return found


def results_name(device: str) -> str:
    """The file for the results of a device: RESULTS.md for "cpu", else for example RESULTS.nvidia-h200.md."""
    return (
        "RESULTS.md"
        if device == "cpu"
        else f"RESULTS.{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}.md"
    )


def load(topic: str) -> ModuleType:
    """Import the topic's module."""
    return import_module(f"benchmarks.topics.{topic}")
