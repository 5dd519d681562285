"""A study that several processes work on at once, any of which may die at any moment."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from filelock import FileLock
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import BasePruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from attention_lab.errors import LabError, first_line

KILLED = "killed"
REASON = "reason"
"""Attribute of a trial: why it was pruned or failed. One that failed without a reason was killed."""
_CLAIMED = "claimed"
_OPTIONS = "options"
GRACE = 6
"""Heartbeats that a process may miss before it counts as killed."""
PATIENCE = 60  # seconds to wait for a database that another process writes


class Result(NamedTuple):
    """How a trial ended: `complete` with a value; `pruned`, `failed` or `killed` with a reason."""

    state: str
    value: float | None = None
    reason: str | None = None


class _FailedError(Exception):
    """Tells `Study.optimize` that a trial failed."""


class _Settled(BaseException):
    """Leaves `Study.optimize`, which handles only exceptions, without a result: the trial already has one."""


def storage_url(storage: str | None, folder: Path) -> str:
    """The URL of a storage given as None, a file or a URL; that of a file is absolute."""
    if storage is None:
        storage = str(folder / "study.db")
    try:
        url = make_url(storage if "://" in storage else f"sqlite:///{storage}")
    except SQLAlchemyError:
        raise LabError(f"sweep.storage={storage} is neither a file nor the URL of a database") from None
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise LabError(
                f"sweep.storage={storage}: processes can share a file only, as in sqlite:///study.db"
            )
        url = url.set(database=str(Path(str(url.database)).resolve()))
    return str(url.render_as_string(hide_password=False))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Without Optuna's warnings that heartbeats and other parts are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


@without_warnings()
def connect(url: str, heartbeat: int | None = None) -> RDBStorage:
    """The storage at a URL, created if it is new.

    Raises:
        LabError: it cannot be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # failed trials are reported in one line of our own
    sqlite = make_url(url)
    file = Path(str(sqlite.database)) if sqlite.get_backend_name() == "sqlite" else None
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    try:
        return RDBStorage(
            url,
            engine_kwargs={"connect_args": {"timeout": PATIENCE}} if file else None,
            heartbeat_interval=heartbeat,
            grace_period=None if heartbeat is None else GRACE * heartbeat,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=2),
        )
    except (SQLAlchemyError, ImportError, OSError, RuntimeError, ValueError) as error:
        raise LabError(f"sweep.storage={sqlite!r}: {first_line(error)}") from None


def open_trial(number: int, *, name: str, storage: str, pruner: BasePruner) -> Trial:
    """A trial of the study of this name, for the process that runs it.

    Raises:
        LabError: the storage cannot be reached.
    """
    opened = connect(storage)
    study = optuna.load_study(study_name=name, storage=opened, pruner=pruner)
    return Trial(study, _trial_id(opened, name, number))


class SharedStudy:
    """A study whose trials are handed out under a lock: none runs twice, and no more than wanted are run.

    A process that runs a trial sends heartbeats. The trial of one that falls silent fails, and a copy of it
    waits for the next process that asks.

    Args:
        name: of the study.
        url: of its storage.
        folder: of the study, for the lock.
        wanted: trials that are complete or pruned when the search is over.
        heartbeat: seconds between signs of life.
        distributions: the options that are searched.
        options: `direction`, `sampler` and `pruner` as `optuna.create_study` takes them.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        folder: Path,
        wanted: int,
        heartbeat: int,
        distributions: Mapping[str, BaseDistribution],
        **options: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / "study.lock")
        self.wanted, self.distributions = wanted, distributions
        with self.lock:
            self.storage = connect(url, heartbeat)
            self.study: Study = optuna.create_study(
                study_name=name, storage=self.storage, load_if_exists=True, **options
            )

    def keep_to(self, options: Mapping[str, str]) -> None:
        """Refuse options other than those that the study was started with: its values would not compare.

        Raises:
            LabError: naming the first that differs.
        """
        with self.lock:
            kept = self.study.user_attrs.get(_OPTIONS)
            if kept is None:
                self.study.set_user_attr(_OPTIONS, dict(options))
                return
        for key in sorted({*kept, *options}):
            if kept.get(key) != options.get(key):
                before = kept.get(key) or f"no {key}"
                raise LabError(
                    f"the study {self.study.study_name} was started with {before}: give the options it "
                    "was started with, or start another with sweep.study=NAME"
                )

    def run_one(self, job: Callable[[Trial], Result]) -> Result | None:
        """Run a trial: one that waits, or else a new one; None if enough are done or running.

        Optuna proposes values and enters results under the lock, which is free while the job runs. Its own
        `MaxTrialsCallback` counts only what has ended: each process could run one trial too many.
        """
        result: Result | None = None

        def objective(trial: Trial) -> float:
            nonlocal result
            for name, distribution in self.distributions.items():
                _suggest(trial, name, distribution)
            # A trial without a heartbeat would never count as silent, and Optuna sends the first at any time.
            self.storage.record_heartbeat(_trial_id(self.storage, self.study.study_name, trial.number))
            trial.set_user_attr(_CLAIMED, trial.number)
            self.lock.release()
            try:
                result = job(trial)
            except BaseException as stop:
                self.lock.acquire()
                self._run_again(trial.number)
                raise _Settled from stop
            self.lock.acquire()
            if self.trials()[trial.number].state != TrialState.RUNNING:
                result = Result(KILLED, reason="silent for too long, and is run again")
                raise _Settled
            if result.value is not None:
                return result.value
            trial.set_user_attr(REASON, result.reason)
            raise optuna.TrialPruned if result.state == "pruned" else _FailedError

        with self.lock:
            self._fail_dead()
            if len(self.trials(TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)) < self.wanted:
                try:
                    self.study.optimize(objective, n_trials=1, catch=_FailedError)
                except _Settled as settled:
                    if settled.__cause__ is not None:
                        raise settled.__cause__ from None
        return result

    @without_warnings()
    def _fail_dead(self) -> None:
        """Fail the trials of processes that have died."""
        fail_stale_trials(self.study)
        for trial in self.trials(TrialState.RUNNING):
            # Under the lock, a trial that runs and is not claimed is that of a process that died claiming it.
            if trial.user_attrs.get(_CLAIMED) != trial.number:
                self._run_again(trial.number)

    @without_warnings()
    def _run_again(self, number: int) -> None:
        """Enter a trial as killed, if it is running; a copy of it waits to be run."""
        trial = self.trials()[number]
        if trial.state == TrialState.RUNNING:
            self.study.tell(number, state=TrialState.FAIL)
            RetryHeartbeatStaleTrialCallback()(self.study, trial)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The study's trials by number, or those in certain states."""
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False, states=states or None)
        return found


def _suggest(trial: Trial, name: str, source: BaseDistribution) -> None:
    """Have a value proposed for an option of a trial."""
    if isinstance(source, FloatDistribution):
        trial.suggest_float(name, source.low, source.high, log=source.log)
    elif isinstance(source, IntDistribution):
        trial.suggest_int(name, source.low, source.high, step=source.step, log=source.log)
    elif isinstance(source, CategoricalDistribution):
        trial.suggest_categorical(name, source.choices)


def _trial_id(storage: RDBStorage, study: str, number: int) -> int:
    """The number by which a storage knows a trial of a study."""
    study_id = storage.get_study_id_from_name(study)
    return int(storage.get_trial_id_from_study_id_trial_number(study_id, number))


def state_name(trial: FrozenTrial) -> str:
    """The state of a trial in a word; a failed one without a reason was killed."""
    if trial.state != TrialState.FAIL:
        return str(trial.state.name.lower())
    return "failed" if REASON in trial.user_attrs else KILLED
