"""The options of `hydra.callbacks.comparison`: which metrics, axes and lines a comparison of runs shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hydra.core.hydra_config import HydraConfig

from attention_lab.commandline.option_paths import lookup
from attention_lab.errors import LabError
from attention_lab.files.run_files import SWEEP
from attention_lab.runs.run_folder import read_sweep

OPTIONS = "hydra.callbacks.comparison"


@dataclass(frozen=True)
class View:
    """The options of a comparison of runs.

    Names are those of metrics in `metrics.json`, of groups in `conf/`, or dotted paths of options.

    Attributes:
        x: the x axis of `comparison.png`: an option or a group for lines, a metric for bubbles.
        y: the metric to compare; by default, or if the runs lack it, the first headline metric.
        group: an option or a group; each of its values has its own line or series of bubbles.
        size: the metric shown by a bubble's area.
        also: additional metrics for the table.
        title: title of the table and the pictures.
    """

    x: str | None = None
    y: str | None = None
    group: str | None = None
    size: str | None = None
    also: tuple[str, ...] = ()
    title: str = ""
    source = OPTIONS  # what errors blame; without an annotation it is no option

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Make the view from the options of `hydra.callbacks.comparison`.

        Raises:
            LabError: an option is unknown, or not text; `also` may be a list of texts.
        """
        named = {str(name): value for name, value in options.items() if name != "_target_"}
        for name in named:
            if name not in cls.__dataclass_fields__:
                raise LabError(f"{OPTIONS}.{name} is unknown: choose {', '.join(cls.__dataclass_fields__)}")
        given = {name: value for name, value in named.items() if value not in (None, "")}
        also = given.pop("also", ())
        also = (also,) if isinstance(also, str) or not isinstance(also, Sequence) else tuple(also)
        for name, value in given.items():
            if not isinstance(value, str):
                raise LabError(f"{OPTIONS}.{name} must be text")
        if not all(isinstance(one, str) for one in also):
            raise LabError(f"{OPTIONS}.also must be a list of metrics, as in [fit/seconds]")
        return cls(**given, also=also)


class SavedView(View):
    """The view of an earlier sweep, from its folder."""

    source = f"{SWEEP} of the sweep: {OPTIONS}"


def choose_view(folders: Sequence[Path]) -> View:
    """The view given on the command line; if there is none and one sweep's folder is given, its view."""
    given = View.of(HydraConfig.get().callbacks.get("comparison") or {})
    if given != View() or len(folders) != 1:
        return given
    swept = lookup(read_sweep(folders[0]), *OPTIONS.split("."))
    options = swept if isinstance(swept, Mapping) else {}
    known = {key: options[key] for key in View.__dataclass_fields__ if isinstance(options.get(key), str)}
    also = options.get("also")
    return SavedView.of({**known, "also": [str(one) for one in also] if isinstance(also, list) else []})
