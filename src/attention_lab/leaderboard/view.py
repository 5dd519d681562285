"""What to show of compared runs: the options of `hydra.callbacks.comparison`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hydra.core.hydra_config import HydraConfig

from attention_lab.commandline.option_paths import lookup
from attention_lab.errors import LabError
from attention_lab.runs.run_folder import SWEEP, read_yaml_or_none

OPTIONS = "hydra.callbacks.comparison"


@dataclass(frozen=True)
class View:
    """What to show of the runs.

    Names are those of metrics in `metrics.json`, of groups in `conf/`, or dotted paths of options.

    Attributes:
        x: the x axis of `comparison.png`: an option or a group for lines, a metric for bubbles.
        y: the metric to compare; the first headline metric if not given, or if the runs lack it.
        group: an option or a group with a line or a series of bubbles for each value.
        size: the metric shown by a bubble's area.
        also: further metrics for the table.
        title: title of table and pictures.
    """

    x: str | None = None
    y: str | None = None
    group: str | None = None
    size: str | None = None
    also: tuple[str, ...] = ()
    title: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The view that the options of `hydra.callbacks.comparison` describe.

        Raises:
            LabError: an option is unknown.
        """
        given = {str(name): value for name, value in options.items() if name != "_target_"}
        for name in given:
            if name not in cls.__dataclass_fields__:
                raise LabError(f"{OPTIONS}.{name} is unknown: choose {', '.join(cls.__dataclass_fields__)}")
        return cls(**{**given, "also": tuple(given.get("also") or ())})


def choose_view(folders: Sequence[Path]) -> View:
    """The view of the command line or, if it has none, of the sweep whose folder alone is given."""
    given = View.of(HydraConfig.get().callbacks.get("comparison") or {})
    if given != View() or len(folders) != 1:
        return given
    swept = lookup(read_yaml_or_none(folders[0] / SWEEP), *OPTIONS.split("."))
    options = swept if isinstance(swept, Mapping) else {}
    known = {key: options[key] for key in View.__dataclass_fields__ if isinstance(options.get(key), str)}
    also = options.get("also")
    return View.of({**known, "also": [str(one) for one in also] if isinstance(also, list) else []})
