"""The stage that tests a claim instead of training a model, without Lightning."""

import json
import math
from functools import partial
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attention_lab.argument_checks import wrong_types
from attention_lab.commandline.overrides import as_text
from attention_lab.console_text import console_line
from attention_lab.errors import LabError, first_line
from attention_lab.files.writing import write_atomically
from attention_lab.text_tables import number
from attention_lab.theorems import Finding, Theorem
from attention_lab.theorems.finding import Cell
from attention_lab.viz import to_png

FILE = "finding.json"


def theorem(config: DictConfig) -> None:
    """Test the claim of `theorem`, print the finding, and write `finding.json` and a PNG of each figure.

    Raises:
        LabError: `theorem` is not a theorem, or its claim does not hold.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    OmegaConf.resolve(config.theorem)
    try:
        bound = instantiate(config.theorem, _partial_=True, _convert_="all")
        if hasattr(bound.func, "run"):
            _check_types(bound)
        claim = bound()
    except (InstantiationException, TypeError, ValueError) as error:
        raise LabError(f"theorem: {first_line(error)}") from None
    if not isinstance(claim, Theorem):
        raise LabError(f"theorem._target_={config.theorem._target_} is not a theorem: it has no run(seed)")
    folder = Path(HydraConfig.get().runtime.output_dir)
    finding = claim.run(config.seed)
    write_atomically(folder / FILE, _as_json(finding) + "\n")
    _show(finding, folder)
    _draw(finding, folder)
    if not finding.holds:
        raise LabError("the claim does not hold with these options: its criterion is not met")


def _check_types(bound: partial[object]) -> None:
    """Raise LabError if an option of a theorem does not have the type that its class annotates."""
    for name, allowed in wrong_types(bound.func, bound.keywords).items():
        raise LabError(f"theorem.{name}={as_text(bound.keywords[name])} must be {allowed}")


def _show(finding: Finding, folder: Path) -> None:
    """Print the finding."""
    console = Console(width=None if Console().is_terminal else 120, highlight=False)
    console.print(f"[bold]{escape(finding.title)}[/bold]")
    console.print(escape(f"{finding.claim} ({finding.source})"))
    table = Table(*map(escape, finding.columns))
    for column, cells in zip(table.columns, zip(*finding.rows, strict=False), strict=False):
        column.min_width = max(len(_text(cell)) for cell in cells)  # the names of columns wrap instead
        if isinstance(cells[0], int | float):
            column.justify = "right"
    for row in finding.rows:
        table.add_row(*(escape(_text(cell)) for cell in row))
    if console.measure(table).minimum >= console.width:  # too wide for lines between the columns
        table.box, table.pad_edge, table.padding = None, False, (0, 1, 0, 0)
    console.print(table, crop=False)  # a narrower terminal breaks the lines
    for note in finding.notes:
        console.print(escape(note))
    console.print(f"[bold]holds: {'yes' if finding.holds else 'no'}[/bold]")
    console.print(escape(f"criterion: {finding.criterion}"))
    console.print(console_line(f"{'Finding':<12} {folder / FILE}"), soft_wrap=True, markup=False)


def _draw(finding: Finding, folder: Path) -> None:
    """Write a PNG of each figure."""
    for figure in finding.figures:
        path = folder / f"{figure.name}.png"
        write_atomically(path, to_png(figure.draw()))
        print(console_line(f"{'Figure':<12} {path}"))


def _text(cell: Cell) -> str:
    return number(cell) if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def _as_json(finding: Finding) -> str:
    """The finding as JSON: null for a number that is NaN or infinite, file names for figures."""
    kept = finding._asdict()
    kept["rows"] = [
        [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row]
        for row in finding.rows
    ]
    kept["figures"] = [f"{figure.name}.png" for figure in finding.figures]
    return json.dumps(kept, indent=2, ensure_ascii=False, allow_nan=False)
