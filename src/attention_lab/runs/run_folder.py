"""Run folders: found below a folder, and read, whatever state they are in."""

import os
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_lab.commandline.option_paths import flatten, is_hydra_key, lookup, without_run_folder
from attention_lab.commandline.overrides import split
from attention_lab.errors import LabError, named_line
from attention_lab.reading import open_regular
from attention_lab.runs.parts import DECISIVE, DISPLAY_ONLY, SEED, TRAINED
from attention_lab.untrusted.plain_files import one_line, read_json, read_yaml
from attention_lab.writing import write_atomically

ERROR = "error.txt"
"""In the folder of a run that failed: the reason in the first line."""
METRICS = "metrics.json"
"""What it measured: written last, so a run that has it is finished."""
PRUNED = "pruned.txt"
"""In the folder of a run that a search stopped for its poor outlook: why."""
STAGES = ("fit", "test")
"""The stages that measure something."""
_WITHOUT_RUNS = {".hydra", "checkpoints", "tensorboard", "attention", ".git"}
_LONGEST = 300  # characters of a reason


@dataclass(frozen=True)
class Job:
    """One run: what it was asked, and what came of it.

    Attributes:
        folder: where it lies.
        overrides: what was said on the command line, by option.
        choices: of each group of `conf/`.
        config: its options as plain values, resolved if it got so far.
        metrics: what it measured.
        error: why it has no usable results; None if it has.
        seed: of its training; of a test that of the run whose checkpoint it tested.
    """

    folder: Path
    overrides: Mapping[str, str]
    choices: Mapping[str, str]
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    error: str | None
    seed: str = ""

    def label(self, keys: Collection[str]) -> str:
        """Those of the options given for it that are in `keys`; all where none is; else its folder."""
        given = {key: value for key, value in self.overrides.items() if key in keys} or self.overrides
        return " ".join(f"{key}={value}" for key, value in given.items()) or self.folder.name

    def value(self, key: str) -> Any:
        """What it has under a metric's name, a group of `conf/`, or the dotted path of an option."""
        for found in (self.metrics, self.choices, self.leaves):
            if key in found:
                return found[key]
        part: Any = self.config
        for name in key.split("."):
            part = part.get(name) if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping):
            return part
        # A group whose choice is not known: the class stands for it.
        return str(part["_target_"]).rpartition(".")[2] if "_target_" in part else None

    @property
    def measures(self) -> bool:
        """Whether it is a training or a test."""
        return self.config.get("stage", STAGES[0]) in STAGES

    @property
    def failed(self) -> bool:
        """Whether it said itself that it failed."""
        return (self.folder / ERROR).is_file()

    @property
    def end(self) -> str:
        """What became of it, of a run without results."""
        if not self.failed and (self.folder / PRUNED).is_file():
            return "pruned"
        return "failed" if self.failed or (self.folder / METRICS).is_file() else "interrupted"

    @cached_property
    def leaves(self) -> dict[str, Any]:
        """The options that decide what it gives, by dotted path; its own folder is written as a dot."""
        own = lookup(self.config, "trainer", "default_root_dir")
        chosen = flatten({part: self.config[part] for part in DECISIVE if part in self.config})
        found = {path: _simple(value) for path, value in chosen if not is_hydra_key(path)}
        if isinstance(self.config.get("ckpt_path"), list):  # one model made of several is another setting
            found["ckpt_path"] = str(self.config["ckpt_path"])
        return without_run_folder(
            {key: value for key, value in found.items() if key not in DISPLAY_ONLY}, own
        )


def record_failure(folder: Path, error: BaseException, reason: str = "") -> str:
    """Leave in a run's folder why it failed; returns the reason, the first line.

    Args:
        folder: the run's.
        error: what was raised; its traceback is kept where no reason is given.
        reason: one line that says all.
    """
    if reason:
        write_atomically(folder / ERROR, f"{reason}\n")
        return reason
    reason = named_line(error)
    write_atomically(folder / ERROR, f"{reason}\n{''.join(traceback.format_exception(error))}")
    return reason


def read_failure(folder: Path) -> str | None:
    """Why a run failed, as it is kept in its folder; None if it did not."""
    path = folder / ERROR
    return read_reason(path) if path.is_file() else None


def find_runs(folders: Sequence[Path], *, every: bool = False) -> list[Job]:
    """All trainings and tests in and below some folders, each once, in the order of their numbers.

    Args:
        folders: where to look.
        every: take jobs of other stages too.
    """
    found: dict[Path, Job] = {}
    for folder in folders:
        for path in _candidates(folder):
            if path.resolve() not in found:
                job = read_job(path)
                if every or job.measures:
                    found[path.resolve()] = job
    return sorted(found.values(), key=lambda job: _order(job.folder))


def _candidates(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        path = Path(root)
        if METRICS in files or ERROR in files or (path / ".hydra" / "config.yaml").is_file():
            yield path
        folders[:] = sorted(name for name in folders if name not in _WITHOUT_RUNS)


def _order(folder: Path) -> tuple[str, float, str]:
    """By sweep, then by Hydra's number of the job, then by name."""
    number = lookup(_yaml_or_none(folder / ".hydra" / "hydra.yaml"), "hydra", "job", "num")
    return str(folder.parent), number if isinstance(number, int) else float("inf"), folder.name


def read_job(folder: Path) -> Job:
    """Read a run's folder, finished or not; what is missing or damaged becomes its `error`."""
    hydra = folder / ".hydra"
    given = _yaml_or_none(hydra / "overrides.yaml")
    parts = [split(str(one)) for one in given] if isinstance(given, list) else []
    metrics: dict[str, float] = {}
    error = None
    config = _yaml_or_none(hydra / "config.yaml")
    try:
        error = read_failure(folder)
        if error is None and (folder / PRUNED).is_file():
            error = read_reason(folder / PRUNED)
        # The run's own file has every value resolved; a job that failed early has only Hydra's.
        if (folder / "config.yaml").is_file() or not isinstance(config, Mapping):
            config = _options(folder / "config.yaml")
        if error is None:
            metrics = read_metrics(folder / METRICS)
    except LabError as damaged:
        error = str(damaged) if error is None else error
    config = config if isinstance(config, Mapping) else {}
    return Job(
        folder=folder,
        overrides={one.key: one.value for one in parts if not (one.removes or one.key.startswith("hydra"))},
        choices=_own_choices(folder, config, {one.key for one in parts}),
        config=config,
        metrics=metrics,
        error=error,
        seed=_seed(config, folder),
    )


def _own_choices(folder: Path, config: Mapping[str, Any], given: Collection[str]) -> dict[str, str]:
    """Of a test those of the run whose checkpoint it tested (the first one's), but for data that were given.

    What Hydra tells of a test are the defaults: its parts are the checkpoint's.
    """
    own, tested = read_choices(folder), config.get("ckpt_path")
    if config.get("stage") != "test" or tested is None:
        return own
    first = tested[0] if isinstance(tested, list) and tested else tested
    trained = read_choices(Path(first).parent.parent) if isinstance(first, str) else {}
    kept = {group: choice for group, choice in own.items() if group not in TRAINED or group in given}
    return {group: choice for group, choice in trained.items() if group in TRAINED} | kept


def read_choices(folder: Path) -> dict[str, str]:
    """What was chosen of each group of `conf/`, as Hydra tells in a run's folder; nothing if it does not."""
    found = lookup(_yaml_or_none(folder / ".hydra" / "hydra.yaml"), "hydra", "runtime", "choices")
    pairs = found.items() if isinstance(found, Mapping) else ()
    named = ((str(group), "null" if choice is None else str(choice)) for group, choice in pairs)
    return {group: choice for group, choice in named if "/" not in group}


def _seed(config: Mapping[str, Any], folder: Path) -> str:
    """Of the training; without one, what no other run has."""
    tested = config.get("ckpt_path")
    if config.get("stage") == "test" and isinstance(tested, str):
        trained = _yaml_or_none(Path(tested).parent.parent / "config.yaml")
        if isinstance(trained, Mapping) and SEED in trained:
            return str(trained[SEED])
    return str(config[SEED]) if SEED in config else f"? {folder}"


def read_reason(path: Path) -> str:
    """The first line of `error.txt` or `pruned.txt`. Raises LabError if it cannot be read."""
    try:
        with open_regular(path) as file:
            line = file.readline(_LONGEST).decode("utf-8", "replace").strip()
        return one_line(line) if line else "it does not say why"
    except OSError as error:
        raise LabError(f"{path.name} cannot be read: {error.strerror}") from None


def _yaml_or_none(path: Path) -> Any:
    """What a YAML file holds; None if it cannot be read."""
    try:
        return read_yaml(path)
    except LabError:
        return None


def _options(path: Path) -> Mapping[str, Any]:
    found = read_yaml(path)
    if not isinstance(found, Mapping):
        raise LabError(f"{path.name} holds no options")
    return {str(key): value for key, value in found.items()}


def read_metrics(path: Path) -> dict[str, float]:
    """The numbers in a run's `metrics.json`. Raises LabError if it is missing or damaged."""
    if not path.exists():
        raise LabError(f"no {path.name}: it was stopped or killed, or is still running")
    read = read_json(path)
    if not isinstance(read, dict) or not read:
        raise LabError(f"{path.name} holds no metrics")
    for name, value in read.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise LabError(f"{path.name}: {one_line(name)} is {str(value)[:40]!r}, not a number")
    try:
        return {name: float(value) for name, value in read.items()}
    except OverflowError:
        raise LabError(f"{path.name} holds a number that is too large") from None


def _simple(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)
