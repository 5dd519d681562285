"""Find run folders and read them, whatever state they are in."""

import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_lab.commandline.option_paths import flatten, is_hydra_key, lookup, without_run_folder
from attention_lab.commandline.overrides import split_override
from attention_lab.config_parts import DECISIVE, SEED, affects_results, completed
from attention_lab.console_text import console_message, one_line
from attention_lab.errors import LabError
from attention_lab.files.paths import is_inside, short_path
from attention_lab.files.regular_files import exists, is_file, matches_in
from attention_lab.files.run_files import (
    CHECKPOINTS,
    CONFIG,
    EARLIER_LOGS,
    ERROR,
    HEATMAPS,
    METRICS,
    PRUNED,
    SWEEP,
    TRAINING,
)
from attention_lab.runs.own_files import check_own_files
from attention_lab.runs.path_patterns import walk
from attention_lab.runs.recorded_failures import read_failure, read_reason
from attention_lab.runs.tested_options import (
    is_test,
    is_unused,
    plain_choices,
    read_training_options,
    with_choices_of_training,
    with_options_of_training,
)
from attention_lab.untrusted.plain_files import read_json, read_yaml

LARGEST_METRIC = 1e100
"""Metrics further from zero than this are read as infinite."""
MOST_OPTIONS = 2_000
"""Maximum number of options of a run, and of those given on its command line; hundreds are usual."""
MOST_METRICS = 10_000
"""Maximum number of metrics of a run."""
STAGES_WITH_METRICS = ("fit", "test")
"""The stages that write metrics."""
_WITHOUT_RUNS = {".hydra", CHECKPOINTS, EARLIER_LOGS, HEATMAPS, ".git"}


@dataclass(frozen=True)
class Job:
    """One run: its options and its results.

    Attributes:
        folder: the run's folder.
        overrides: the values given on the command line, by option.
        choices: the choice from each group of `conf/`.
        config: the options as plain values; interpolations are resolved unless the run failed too early.
        metrics: the results.
        error: why there are no usable results; None if there are some.
        seed: the seed of the training run; for a test, that of the run whose checkpoint was tested.
    """

    folder: Path
    overrides: Mapping[str, str]
    choices: Mapping[str, str]
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    error: str | None
    seed: str = ""

    def label(self, keys: Collection[str]) -> str:
        """The overrides of options in `keys`; else all overrides; else the folder's name."""
        given = {key: value for key, value in self.overrides.items() if key in keys} or self.overrides
        return " ".join(f"{key}={value}" for key, value in given.items()) or self.folder.name

    def value(self, key: str) -> Any:
        """The value of a metric, of a group of `conf/`, or of an option by its dotted path."""
        for found in (self.metrics, self.choices, self.options):
            if key in found:
                return found[key]
        part = lookup(self.config, *key.split("."))
        if not isinstance(part, Mapping):
            return _simple(part)
        # If the choice from a group is unknown, use the name of the class.
        return str(part["_target_"]).rpartition(".")[2] if "_target_" in part else None

    @property
    def has_metrics_stage(self) -> bool:
        """Whether its stage, fit or test, writes metrics."""
        return self.config.get("stage", STAGES_WITH_METRICS[0]) in STAGES_WITH_METRICS

    @property
    def failed(self) -> bool:
        """Whether the run has recorded that it failed."""
        return is_file(self.folder / ERROR)

    @property
    def outcome(self) -> str:
        """How a run without results ended: pruned, failed or interrupted."""
        if not self.failed and is_file(self.folder / PRUNED):
            return "pruned"
        return "failed" if self.failed or is_file(self.folder / METRICS) else "interrupted"

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that affect the results, by dotted path; the run's own folder is replaced by a dot."""
        own = lookup(self.config, "trainer", "default_root_dir")
        chosen = flatten({part: completed(self.config[part]) for part in DECISIVE if part in self.config})
        found = {path: _simple(value) for path, value in chosen if not is_hydra_key(path)}
        if is_test(self.config):  # an ensemble is a setting of its own
            found["ckpt_path"] = self.config["ckpt_path"]
        return without_run_folder({key: value for key, value in found.items() if affects_results(key)}, own)

    def uses(self, key: str) -> bool:
        """Whether its results may depend on this option."""
        return affects_results(key) and not is_unused(self.config, key)


def tags_of(job: Job) -> list[str]:
    """The tags that a run was given."""
    tags = job.config.get("tags")
    return [str(tag) for tag in tags] if isinstance(tags, list) else []


def find_runs(folders: Sequence[Path], *, every: bool = False) -> list[Job]:
    """Find all fit and test runs in and below the folders, without duplicates, sorted by job number.

    Args:
        folders: the folders to search.
        every: whether to include jobs of other stages.
    """
    found: dict[Path, Job] = {}
    for folder in folders:
        for path in _candidates(folder):
            if path.resolve() not in found:
                job = read_job(path)
                if every or job.has_metrics_stage:
                    found[path.resolve()] = job
    return sorted(found.values(), key=lambda job: _order(job.folder))


def _candidates(folder: Path) -> Iterator[Path]:
    def warn(error: OSError) -> None:
        reason = f"{short_path(Path(str(error.filename)))}: {error.strerror}: its runs are left out"
        print(console_message("Warning", reason), file=sys.stderr)

    for path, files in walk(folder, _WITHOUT_RUNS, warn):
        if METRICS in files or ERROR in files or is_file(path / ".hydra" / CONFIG):
            yield path


def _order(folder: Path) -> tuple[str, float, str]:
    """A sort key: by sweep, then by Hydra's job number, then by name."""
    number = lookup(read_yaml_or_none(folder / ".hydra" / "hydra.yaml"), "hydra", "job", "num")
    return str(folder.parent), number if isinstance(number, int) else float("inf"), folder.name


def started_jobs(sweep: Path) -> list[Path]:
    """The records of the jobs in a sweep's folder: Hydra writes the options of each when it starts."""
    records = (folder / ".hydra" / "overrides.yaml" for folder in matches_in(sweep, "*"))
    return [record for record in records if exists(record)]


def read_job(folder: Path) -> Job:
    """Read the folder of a finished or unfinished run; a missing or damaged file is reported as `error`."""
    try:
        check_own_files(folder)
    except LabError as linked:
        return Job(folder, {}, {}, {}, {}, str(linked), f"? {folder}")
    overrides = read_yaml_or_none(folder / ".hydra" / "overrides.yaml")
    given = overrides if isinstance(overrides, list) else []
    config, metrics, error = _read_results(folder)
    trained = read_training_options(folder) if is_test(config) else {}
    files = {CONFIG: flatten(config), TRAINING: flatten(trained), "overrides.yaml": given}
    crowded = [name for name, options in files.items() if sum(1 for _ in options) > MOST_OPTIONS]
    if crowded:
        error = error or f"{crowded[0]} has more than {MOST_OPTIONS:,} options, more than any run has"
        config, trained, metrics, given = {}, {}, {}, []
    parts = [split_override(str(text)) for text in given]
    choices, typed = read_choices(folder), {one.key for one in parts}
    return Job(
        folder=folder,
        overrides={one.key: one.value for one in parts if not (one.removes or one.key.startswith("hydra"))},
        choices=with_choices_of_training(choices, typed, trained) if is_test(config) else choices,
        config=with_options_of_training(config, trained),
        metrics=metrics,
        error=error,
        seed=_seed(config, folder, trained),
    )


def _read_results(folder: Path) -> tuple[Mapping[str, Any], dict[str, float], str | None]:
    """The options and metrics of a run, empty if they cannot be read, and why it has no usable results."""
    # The run's own file has all values resolved; a job that failed early has only Hydra's file.
    config = read_yaml_or_none(folder / ".hydra" / CONFIG)
    if is_file(folder / CONFIG) and lookup(config, "stage") not in STAGES_WITH_METRICS:
        config = {}  # of a later prediction in this folder: the run's own file is that of a fit or a test
    metrics: dict[str, float] = {}
    error = None
    try:
        error = read_failure(folder)
        if error is None and is_file(folder / PRUNED):
            error = read_reason(folder / PRUNED)
        if is_file(folder / CONFIG) or not isinstance(config, Mapping):
            config = read_options(folder / CONFIG)
        if error is None:
            metrics = read_metrics(folder / METRICS)
    except LabError as damaged:
        error = error or str(damaged)
    return config if isinstance(config, Mapping) else {}, metrics, error


def read_choices(folder: Path) -> dict[str, str]:
    """The choice from each group of `conf/`, from Hydra's record in a run's folder; empty without one."""
    record = read_yaml_or_none(folder / ".hydra" / "hydra.yaml")
    return plain_choices(lookup(record, "hydra", "runtime", "choices"))


def _seed(config: Mapping[str, Any], folder: Path, trained: Mapping[str, Any]) -> str:
    """The seed of the training run; if unknown, a text that is unique to the run."""
    if SEED in trained and isinstance(config.get("ckpt_path"), str):
        return str(trained[SEED])
    return str(config[SEED]) if SEED in config else f"? {folder}"


def read_yaml_or_none(path: Path) -> Any:
    """Read a YAML file; None if it cannot be read."""
    try:
        return read_yaml(path)
    except LabError:
        return None


def read_sweep(folder: Path) -> Any:
    """The configuration of a sweep; None if it cannot be read, or is a link that leads out of the folder."""
    return read_yaml_or_none(folder / SWEEP) if is_inside(folder / SWEEP, folder) else None


def read_options(path: Path, label: str | None = None) -> dict[str, Any]:
    """Read the options in a `config.yaml`. Raises LabError, naming `label` or the file, if it is damaged."""
    found = read_yaml(path, label)
    if not isinstance(found, Mapping):
        raise LabError(f"{label or path.name} contains no options")
    return {str(key): value for key, value in found.items()}


def read_metrics(path: Path, label: str | None = None) -> dict[str, float]:
    """Read the numbers in a `metrics.json`; null is read as NaN.

    Raises:
        LabError: it is damaged; the message names `label` or the file.
    """
    label = label or path.name
    if not exists(path):
        raise LabError(f"no {label}: the run was stopped or killed, or is still running")
    metrics = read_json(path, label)
    if not isinstance(metrics, dict) or not metrics:
        raise LabError(f"{label} contains no metrics")
    if len(metrics) > MOST_METRICS:
        raise LabError(f"{label} has more than {MOST_METRICS:,} metrics, more than any run has")
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise LabError(f"{label}: {one_line(name)} is {str(value)[:40]!r}, not a number")
    try:
        return {name: _metric(math.nan if value is None else float(value)) for name, value in metrics.items()}
    except OverflowError:
        raise LabError(f"{label} contains a number that is too large") from None


def _metric(value: float) -> float:
    """The value of a metric; a diverged one is infinite, as the sum of squares of such numbers would be."""
    return math.copysign(math.inf, value) if abs(value) > LARGEST_METRIC else value


def _simple(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)
