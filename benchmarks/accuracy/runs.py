"""Train, test and combine models: each run is a separate process with one thread, and none is done twice."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from attention_lab.errors import LabError
from attention_lab.files.writing import write_atomically
from attention_lab.runs.run_folder import read_metrics
from attention_lab.untrusted.plain_files import read_small_text
from benchmarks.accuracy.tasks import Language, SharedTask

ROOT = Path(__file__).parents[2]
DONE = "done.json"
"""File in a finished run's folder with its arguments; a run with other arguments is a different run."""
ENSEMBLE = "ensemble"
"""The folder of a language's ensemble."""


class Member(NamedTuple):
    """A model that is trained for each language.

    Attributes:
        options: options of `train.py`, separated by spaces; empty for the unchanged experiment.
        seed: the seed of the model.
    """

    options: str
    seed: int

    def __str__(self) -> str:
        """The name of the model's folder."""
        kind = re.sub(r"[^\w.=-]+", "_", self.options)
        return f"{kind}_{self.seed}" if kind else str(self.seed)


@dataclass
class Runs:
    """The runs of a task.

    Args:
        task: the shared task.
        output: the folder that contains the folders of the runs.
        seeds: the seeds; each kind of model is trained once with each.
        kinds: for each kind of model, its options of `train.py`.
        overrides: options of `train.py` for all models.
    """

    task: SharedTask
    output: Path
    seeds: Sequence[int]
    kinds: Sequence[str]
    overrides: Sequence[str] = ()
    _processes: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    _stopped: bool = False

    @property
    def members(self) -> list[Member]:
        """The models of a language; if there are several, they form its ensemble."""
        return [Member(kind, seed) for kind in self.kinds for seed in self.seeds]

    def folder(self, language: Language, name: Member | str) -> Path:
        """The folder of a run, or of the ensemble."""
        return self.output / language.name / str(name)

    def run(self, languages: Sequence[Language], jobs: int) -> list[str]:
        """Do all unfinished runs, `jobs` at a time; returns a line for each run that failed.

        A run that was stopped continues where it stopped. On Ctrl-C or SIGTERM, the processes save and end.

        Raises:
            LabError: two models would have the same folder.
        """
        names = [str(member) for member in self.members]
        if twice := {name for name in names if names.count(name) > 1}:
            raise LabError(f"--kind, --seeds: {min(twice)} is given twice")
        failed: list[str] = []
        with ThreadPoolExecutor(jobs) as pool:
            try:
                waiting: dict[Future[str | None], Language] = {}
                left = {language.name: len(self.members) for language in languages}
                for language in languages:
                    for member in self.members:
                        waiting[pool.submit(self._train, language, member)] = language
                while waiting:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        language, trouble = waiting.pop(future), future.result()
                        if trouble is not None:
                            failed.append(trouble)
                            continue
                        left[language.name] -= 1
                        if left[language.name] == 0 and len(self.members) > 1:
                            waiting[pool.submit(self._combine, language)] = language
            except BaseException:
                self._stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return sorted(failed)

    def results(self, language: Language, name: Member | str) -> dict[str, float] | None:
        """The metrics of a run; None if it is not finished."""
        folder = self.folder(language, name)
        if not (folder / DONE).is_file():
            return None
        try:
            return read_metrics(folder / "metrics.json")
        except LabError as error:
            raise LabError(f"{folder}: {error}: delete {folder}") from None

    def _train(self, language: Language, member: Member) -> str | None:
        return self._once(language, member, [f"seed={member.seed}", *member.options.split(), "resume=auto"])

    def _combine(self, language: Language) -> str | None:
        """Test the ensemble of averaged weights after the last epoch, so that nothing is chosen on dev."""
        return self._once(language, ENSEMBLE, ["stage=test", self._checkpoints(language)])

    def is_combined(self, language: Language) -> bool:
        """Whether the ensemble's result was computed with these models."""
        return self._checkpoints(language) in (_arguments(self.folder(language, ENSEMBLE)) or [])

    def _checkpoints(self, language: Language) -> str:
        """The option that names the models of the ensemble."""
        paths = [self.folder(language, one) / "checkpoints" / "last.ckpt" for one in self.members]
        return f"ckpt_path=[{','.join(_quoted(path) for path in paths)}]"

    def _once(self, language: Language, name: Member | str, options: list[str]) -> str | None:
        """Do a run unless it is finished; returns a line about its failure, if it fails."""
        folder = self.folder(language, name)
        parts = zip(("train", "validation", "test"), ("train", "dev", "test"), strict=True)
        files = [f"data.{part}_file={_quoted(language.files[key])}" for part, key in parts]
        arguments = [f"experiment={self.task.experiment}", *files, *options, *self.overrides]
        arguments += [f"hydra.run.dir={_quoted(folder.absolute())}", "threads=1", "pictures=0"]
        if _arguments(folder) == arguments:
            return None
        (folder / DONE).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        given = arguments
        if name == ENSEMBLE:  # a test takes model and training from the checkpoints
            left_out = {one for one in self.overrides if not one.startswith(("data.", "task."))}
            given = [one for one in arguments if one not in left_out]
        status = self._process(given, _log(folder))
        if status:
            return f"{language.name}/{name} ended with status {status}: see {_log(folder)}"
        write_atomically(folder / DONE, json.dumps(arguments, indent=1) + "\n")
        return None

    def _process(self, arguments: list[str], log: Path) -> int:
        command = [sys.executable, str(ROOT / "train.py"), *arguments]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with log.open("wb") as file:
            with self._lock:
                if self._stopped:
                    return 130
                # In a session of its own, so that Ctrl-C reaches it only once, through this process.
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._processes.add(process)
            try:
                return process.wait()
            finally:
                with self._lock:
                    self._processes.discard(process)

    def _stop(self) -> None:
        """Let the processes save and end."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.terminate()


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def _arguments(folder: Path) -> list[str] | None:
    """The arguments of a finished run."""
    try:
        found = json.loads(read_small_text(folder / DONE))
    except (OSError, ValueError, LabError):
        return None
    return found if isinstance(found, list) and (folder / "metrics.json").is_file() else None


def _quoted(path: Path) -> str:
    """A path quoted for Hydra's command line."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
