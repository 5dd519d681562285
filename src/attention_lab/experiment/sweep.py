"""The jobs of a sweep as they lie in its folder, and what they say together."""

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from attention_lab.experiment.report import is_end

ERROR = "error.txt"
"""In the folder of a job that failed: the reason in the first line."""
SEED = "seed"
"""The option over whose values results are averaged."""


@dataclass(frozen=True)
class Job:
    """One job: what it was asked, and what came of it."""

    folder: Path
    overrides: Mapping[str, str]
    choices: Mapping[str, str]
    config: DictConfig
    metrics: Mapping[str, float]
    error: str | None

    def label(self, keys: Collection[str]) -> str:
        """Those of the options given for it that are in `keys`; all where none is."""
        given = {key: value for key, value in self.overrides.items() if key in keys} or self.overrides
        return " ".join(f"{key}={value}" for key, value in given.items())

    def value(self, key: str) -> Any:
        """What it has under a metric's name, a group of `conf/`, or the dotted path of an option."""
        if key in self.metrics:
            return self.metrics[key]
        if key in self.choices:
            return self.choices[key]
        return OmegaConf.select(self.config, key)


class Estimate(NamedTuple):
    r"""Mean and standard deviation of n values, and half the width of the 95% interval of the mean.

    With :math:`s` the standard deviation (n - 1 in its denominator) and :math:`t` the quantile of Student's
    distribution (1908), half the width is :math:`t_{0.975,\,n-1}\, s / \sqrt n`; of one value it is NaN.
    """

    n: int
    mean: float
    sd: float
    half: float


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from at least one value; NaN among them gives NaN."""
    from scipy.special import stdtrit

    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1 or not all(map(math.isfinite, values)):
        return Estimate(n, mean, math.nan, math.nan)
    sd = statistics.stdev(values)
    return Estimate(n, mean, sd, float(stdtrit(n - 1, 0.975)) * sd / math.sqrt(n))


@dataclass(frozen=True)
class Cell:
    """The jobs that differ in nothing but the seed, and in what they agree."""

    options: Mapping[str, Any]
    jobs: Sequence[Job]

    def estimate(self, metric: str) -> Estimate | None:
        """Of a metric over the jobs that have it; None where none has."""
        values = [float(job.metrics[metric]) for job in self.jobs if metric in job.metrics]
        return estimate(values) if values else None


def read_job(folder: Path) -> Job:
    """Read a job's folder, finished or not."""
    hydra = folder / ".hydra"
    overrides = [str(one).lstrip("+").partition("=") for one in OmegaConf.load(hydra / "overrides.yaml")]
    # The run's own file has every value resolved; a job that failed early has only Hydra's.
    config = folder / "config.yaml"
    loaded = OmegaConf.load(config if config.is_file() else hydra / "config.yaml")
    assert isinstance(loaded, DictConfig)
    choices = OmegaConf.select(OmegaConf.load(hydra / "hydra.yaml"), "hydra.runtime.choices")
    metrics, error = folder / "metrics.json", folder / ERROR
    return Job(
        folder=folder,
        overrides={key: value for key, _, value in overrides if not key.startswith(("hydra", "~"))},
        choices={group: str(choice) for group, choice in choices.items() if "/" not in str(group)},
        config=loaded,
        metrics=json.loads(metrics.read_text(encoding="utf-8")) if metrics.is_file() else {},
        error=error.read_text(encoding="utf-8").partition("\n")[0] if error.is_file() else None,
    )


def read_sweep(folder: Path) -> list[Job]:
    """All jobs below a sweep's folder, in the order in which they were numbered."""
    jobs = [path.parent.parent for path in folder.rglob(".hydra/overrides.yaml")]
    return [read_job(job) for job in sorted(jobs, key=_number)]


def _number(folder: Path) -> tuple[float, str]:
    """The job's number: Hydra's, or else last, by name."""
    number = OmegaConf.select(OmegaConf.load(folder / ".hydra" / "hydra.yaml"), "hydra.job.num")
    return (math.inf if number is None else float(number), str(folder))


def varied(jobs: Sequence[Job]) -> list[str]:
    """The options in which the jobs differ, the seed aside."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.overrides))
    return [key for key in keys if key != SEED and len({job.overrides.get(key) for job in jobs}) > 1]


def cells(jobs: Sequence[Job], keys: Sequence[str]) -> list[Cell]:
    """The jobs with equal values of `keys` together, in the order in which each first comes."""
    found: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        found.setdefault(tuple(str(job.value(key)) for key in keys), []).append(job)
    return [Cell({key: group[0].value(key) for key in keys}, group) for group in found.values()]


def headlines(jobs: Sequence[Job], most: int = 4) -> list[str]:
    """The metrics of the test by which jobs are compared, the monitored one first; any without a test."""
    known = sorted({name for job in jobs for name in job.metrics})
    tested = [name for name in known if name.startswith("test/")]
    names = [name for name in tested if name != "test/loss" and not is_end(name, tested)] or tested or known
    monitored = {str(job.value("monitor.metric")).replace("validation/", "test/") for job in jobs}
    return sorted(names, key=lambda name: name not in monitored)[:most]
