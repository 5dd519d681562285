"""After a sweep: one table of all its jobs, over their seeds, and a picture."""

import math
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from attention_lab.errors import LabError
from attention_lab.experiment.report import write_atomically
from attention_lab.experiment.sweep import (
    ERROR,
    SEED,
    Cell,
    Job,
    cells,
    headlines,
    read_job,
    read_sweep,
    varied,
)
from attention_lab.experiment.tables import number, or_nan, show, tabulate, to_csv, to_markdown
from attention_lab.viz import to_png
from attention_lab.viz.plot import MISSING, Measured, draw_bubbles, draw_lines, is_available

NAME = "comparison"


class Comparison(Callback):
    """A callback of Hydra: a line for each job of a sweep, and a comparison when all are done.

    Jobs that differ only in their seed are one row: mean, standard deviation and the 95% interval of the
    mean. The sweep's folder gets `comparison.csv`, `comparison.md` and, where `x` and `y` are given,
    `comparison.png`. A job that fails stops no other; it is listed with its reason, and the sweep ends with
    status 1.

    What may be named: a metric of `metrics.json`, a group of `conf/` (its choice), an option's dotted path.

    Args:
        x: what the picture's horizontal axis shows: an option or a group for lines, a metric for bubbles.
        y: the metric that is compared; without it, all jobs are ranked by the headlines of their test.
        group: an option or a group: a line, or a bubble, for each of its values.
        size: a metric that the area of a bubble shows.
        also: further metrics for the table.
        title: of table and picture.
    """

    def __init__(
        self,
        x: str | None = None,
        y: str | None = None,
        group: str | None = None,
        size: str | None = None,
        also: Sequence[str] = (),
        title: str = "",
    ) -> None:
        self.x, self.y, self.group, self.size = x, y, group, size
        self.also = tuple(also)
        self.title = title
        self.start = 0.0
        self.swept: list[str] = []
        self.total = 0

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Say where the sweep goes, and refuse columns that no job can have, before hours of work."""
        if (self.x is None) != (self.y is None):
            sys.exit(f"Error: hydra.callbacks.{NAME}: x and y go together, or leave both out")
        for key in (self.x, self.group):
            known = key is None or "/" in key or key in config.hydra.runtime.choices
            if not known and OmegaConf.select(config, key or "", default="?") == "?":
                sys.exit(f"Error: hydra.callbacks.{NAME}: {key} is no option, no group and no metric")
        swept = _swept(config)
        self.swept = [*swept, SEED]
        self.total = math.prod(swept.values())
        print(f"Sweep: {config.hydra.sweep.dir}", flush=True)

    def on_job_start(self, config: DictConfig, *, task_function: TaskFunction, **kwargs: Any) -> None:
        """Announce a job of a sweep; what an earlier one left in its folder goes."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        folder = Path(config.hydra.runtime.output_dir)
        for name in (ERROR, "metrics.json"):
            (folder / name).unlink(missing_ok=True)
        self.start = time.perf_counter()
        count = f"/{self.total}" if self.total else ""
        label = read_job(folder).label(self.swept)
        print(f"{int(config.hydra.job.num) + 1}{count}  {label}", end="  ", flush=True)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Finish a job's line; what it failed of is kept in its folder, and the next job may start."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        folder = Path(config.hydra.runtime.output_dir)
        if job_return.status == JobStatus.FAILED:
            error = job_return._return_value
            ours = isinstance(error, CompactHydraException)
            first = str(error).strip().partition("\n")[0]
            reason = (
                first.removeprefix("Error: ") if ours else f"{type(error).__name__}: {first}".rstrip(": ")
            )
            write_atomically(folder / ERROR, f"{reason}\n{'' if ours else _traceback(error)}")
            # A sweeper takes an exception for the end of everything, and NaN for one bad job.
            job_return.status, job_return.return_value = JobStatus.COMPLETED, math.nan
            print(f"failed: {reason}  {_name(folder, config)}", flush=True)
            return
        job = read_job(folder)
        shown = [f"{name.removeprefix('test/')} {number(job.metrics[name])}" for name in headlines([job])]
        print(
            "  ".join([*shown, f"{time.perf_counter() - self.start:.1f} s", _name(folder, config)]),
            flush=True,
        )

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table and write the files; end with status 1 if a job failed."""
        folder = Path(config.hydra.sweep.dir)
        jobs = read_sweep(folder)
        failed = [job for job in jobs if job.error is not None]
        done = [job for job in jobs if job.error is None and job.metrics]
        if done or failed:
            try:
                self.compare(folder, done, failed)
            except LabError as error:
                sys.exit(f"Error: {error}")
        if failed:
            sys.exit(f"Error: {len(failed)} of {len(jobs)} jobs failed")

    def compare(self, folder: Path, done: Sequence[Job], failed: Sequence[Job]) -> None:
        """Print the table of a sweep's jobs and write the three files.

        Raises:
            LabError: no job has the metric that is to be compared.
        """
        metrics = self._metrics(done)
        keys = [key for key in (self.group, self.x) if key is not None and key not in metrics]
        keys += [key for key in varied(done) if key not in keys]
        rows = cells(done, keys)
        if self.y is None:
            largest = any(str(job.value("monitor.mode")) == "max" for job in done)
            rows.sort(key=lambda row: _rank(row, metrics[0], largest))
        header, lines = tabulate(rows, keys, metrics)
        title = self.title or f"{len(done)} jobs"
        distinct = [*varied([*done, *failed]), SEED]
        reasons = {job.label(distinct): str(job.error) for job in failed}
        show(title, header, lines, reasons)
        write_atomically(folder / f"{NAME}.csv", to_csv(rows, keys, metrics))
        picture = self._draw(folder, rows, keys)
        shown = f"{NAME}.png" if picture else None
        write_atomically(folder / f"{NAME}.md", to_markdown(title, header, lines, reasons, shown))
        print(f"Comparison: {_short(folder)}/{NAME}.{{csv,md{',png' if picture else ''}}}", flush=True)

    def _metrics(self, done: Sequence[Job]) -> list[str]:
        """The metrics of the table, the one that is compared first; of the extra ones, those measured."""
        known = sorted({name for job in done for name in job.metrics})
        x = [self.x] if self.x is not None and ("/" in self.x or self.x in known) else []
        needed = [*headlines(done), "fit/seconds"] if self.y is None else [self.y, *x]
        for name in needed if done and self.y is not None else ():
            if name not in known:
                raise LabError(
                    f"hydra.callbacks.{NAME}: no job has the metric {name}: choose {', '.join(known)}"
                )
        further = [name for name in (self.size, *self.also) if name in known and name is not None]
        return list(dict.fromkeys([*(name for name in needed if name in known or not done), *further]))

    def _draw(self, folder: Path, rows: Sequence[Cell], keys: Sequence[str]) -> bool:
        """Draw `comparison.png`; whether it was."""
        if self.x is None or self.y is None or not rows:
            return False
        if not is_available():
            print(f"{NAME}.png: {MISSING}", flush=True)
            return False
        bubbles = self.x not in keys
        most = max(len(row.jobs) for row in rows)
        spread = f"mean and 95% interval over {most} seeds" if most > 1 else "one run each"
        labels = {"title": self.title, "x_label": self.x, "y_label": self.y}
        lines: dict[str, list[Cell]] = {}
        for row in rows:
            named = [str(value) for key, value in row.options.items() if key != self.x]
            lines.setdefault(" · ".join(named), []).append(row)
        measured = [self._measured(name, line) for name, line in lines.items()]
        if bubbles:
            note = f"{spread}; area: {self.size}" if self.size else spread
            image = draw_bubbles(measured, note=note, **labels)
        else:
            image = draw_lines(measured, note=spread, **labels)
        (folder / f"{NAME}.png").write_bytes(to_png(image))
        return True

    def _measured(self, name: str, rows: Sequence[Cell]) -> Measured:
        assert self.x is not None
        assert self.y is not None
        y = [or_nan(row.estimate(self.y)) for row in rows]
        areas = [or_nan(row.estimate(self.size)).mean for row in rows] if self.size else None
        halves = [one.half for one in y]
        if self.x in rows[0].options:
            xs = [row.options[self.x] for row in rows]
            return Measured(name, xs, [one.mean for one in y], halves, areas=areas)
        x = [or_nan(row.estimate(self.x)) for row in rows]
        return Measured(
            name,
            [one.mean for one in x],
            [one.mean for one in y],
            halves,
            x_halves=[one.half for one in x],
            areas=areas,
        )


def _rank(row: Cell, metric: str, largest: bool) -> float:
    mean = or_nan(row.estimate(metric)).mean
    return math.inf if math.isnan(mean) else -mean if largest else mean


def _swept(config: DictConfig) -> dict[str, int]:
    """The options that the sweep runs through, and how many values each takes; 0 where that is open."""
    params = OmegaConf.select(config, "hydra.sweeper.params") or {}
    given = [*(f"{key}={value}" for key, value in params.items()), *config.hydra.overrides.task]
    parsed = {one.key_or_group: one for one in OverridesParser.create().parse_overrides(given)}
    return {
        key: len(list(one.sweep_string_iterator())) if one.is_discrete_sweep() else 0
        for key, one in parsed.items()
        if one.is_sweep_override()
    }


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _name(folder: Path, config: DictConfig) -> str:
    """A job's folder, seen from that of the sweep."""
    sweep = Path(config.hydra.sweep.dir).resolve()
    return str(folder.relative_to(sweep) if folder.is_relative_to(sweep) else folder)


def _short(path: Path) -> str:
    """The path from here, where it lies below."""
    here = Path.cwd()
    return str(path.resolve().relative_to(here) if path.resolve().is_relative_to(here) else path)
