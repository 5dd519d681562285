"""Checks of the options of `show`, and a warning about what it draws."""

import operator
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from attention_lab.argument_checks import kind_of
from attention_lab.console_text import counted
from attention_lab.tensorboard_plugin.record import AttentionRecord


def check_names(names: Collection[str] | None, known: Iterable[str]) -> None:
    """Raise ValueError if a name matches no attention."""
    missing = [name for name in names or () if name not in known]
    if missing:
        choices = ", ".join(map(repr, known)) or "none"
        raise ValueError(f"there is no attention {missing[0]!r}; choose from {choices}")


def whole_numbers(heads: Any) -> list[int]:
    """The numbers of heads as a list. Raises ValueError if they are not whole numbers."""
    given = heads.tolist() if hasattr(heads, "tolist") else heads
    try:
        if any(isinstance(head, bool | np.bool_) for head in given):
            raise TypeError
        return [operator.index(head) for head in given]
    except TypeError:
        raise ValueError(f"heads={given}: give whole numbers in a list, such as [0, 1]") from None


def check_texts(**texts: object) -> None:
    """Raise ValueError for an option that is neither text nor None."""
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{name} must be a text, not {kind_of(text)}")


def warn_of_nan(runs: Mapping[str, Mapping[str, AttentionRecord]]) -> None:
    """Warn, in the name of the caller's caller, if weights that no mask hides are NaN or infinite."""
    counts = {
        tag: count
        for records in runs.values()
        for tag, record in records.items()
        if (count := int((record.attended & ~np.isfinite(record.weights)).sum()))
    }
    if counts:
        found = counted(sum(counts.values()), "NaN or infinite weight")
        warnings.warn(
            f"show: {found}, first in {next(iter(counts))!r}: the page draws such weights as masked, "
            "pictures in magenta",
            stacklevel=3,
        )


def check_unused(**options: Any) -> None:
    """Raise ValueError for an option that has no effect on a model with its own `observe`."""
    given = next((name for name, value in options.items() if value is not None), None)
    if given:
        raise ValueError(f"show(trained, texts) takes labels and masks from the model: leave out {given}")
