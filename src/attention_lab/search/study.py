"""A study that several processes work on at once, any of which may die at any moment."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import optuna
from filelock import FileLock
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from attention_lab.errors import LabError, first_line

KILLED = "killed"
STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    KILLED: TrialState.FAIL,
}
"""What may come of a trial, in Optuna's terms."""
REASON = "reason"
"""Attribute of a trial: why it was pruned or failed. One that failed without was killed."""
_CLAIMED = "claimed"
_OPTIONS = "options"
GRACE = 6
"""Heartbeats that a process may miss before it counts as killed."""
PATIENCE = 60  # seconds to wait for a database that another process writes


def storage_url(storage: str | None, folder: Path) -> str:
    """The URL of a storage that is given as none, a file or a URL; that of a file is absolute."""
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


def connect(url: str, heartbeat: int | None = None) -> RDBStorage:
    """The storage at a URL, made if it is new."""
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


def open_study(name: str, storage: str, pruner: BasePruner) -> Study:
    """The study of this name, for a process that runs one of its trials.

    Raises:
        LabError: the storage cannot be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with without_warnings():
        return optuna.load_study(study_name=name, storage=connect(storage), pruner=pruner)


class SharedStudy:
    """Trials are claimed under a lock, so that no two processes run one, and no more than wanted are run.

    A process that runs a trial gives signs of life. The trial of one that falls silent fails, and a copy of
    it waits for whoever asks next.

    Args:
        name: of the study.
        url: of its storage.
        folder: of the study, for the lock.
        wanted: trials that are complete or pruned when the search is over.
        heartbeat: seconds between signs of life.
        largest: whether the largest value is the best.
        sampler: proposes values.
        pruner: whose brackets the sampler may need to know.
        distributions: what is searched.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        folder: Path,
        wanted: int,
        heartbeat: int,
        largest: bool,
        sampler: optuna.samplers.BaseSampler,
        pruner: BasePruner,
        distributions: Mapping[str, BaseDistribution],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / "study.lock")
        self.url, self.wanted, self.largest = url, wanted, largest
        self.distributions = dict(distributions)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self.lock, without_warnings():
            self.storage = connect(url, heartbeat)
            self.study: Study = optuna.create_study(
                study_name=name,
                storage=self.storage,
                direction="maximize" if largest else "minimize",
                sampler=sampler,
                pruner=pruner,
                load_if_exists=True,
            )

    def keep_to(self, options: Mapping[str, str]) -> None:
        """Refuse options other than those that the study was begun with: its values would not compare.

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
                    f"the study {self.study.study_name} was begun with {before}: give the options it "
                    "was begun with, or begin another with sweep.study=NAME"
                )

    def claim(self) -> Trial | None:
        """A trial to run: one that waits, or else a new one; None if enough are done or running."""
        with self.lock, without_warnings():
            self._fail_dead()
            found = Counter(trial.state for trial in self.trials())
            done = found[TrialState.COMPLETE] + found[TrialState.PRUNED] + found[TrialState.RUNNING]
            if not found[TrialState.WAITING] and done >= self.wanted:
                return None
            trial = self.study.ask(self.distributions)
            self.storage.record_heartbeat(trial._trial_id)
            trial.set_user_attr(_CLAIMED, trial.number)
            return trial

    def _fail_dead(self) -> None:
        """Fail the trials of processes that are no more."""
        fail_stale_trials(self.study)
        for trial in self.trials(TrialState.RUNNING):
            # Under the lock, a trial that runs and is not claimed is that of a process that died claiming it.
            if trial.user_attrs.get(_CLAIMED) != trial.number:
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    @contextmanager
    def alive(self, trial: Trial) -> Iterator[None]:
        """While a trial runs: signs of life; a trial that is broken off waits to be run again."""
        try:
            with get_heartbeat_thread(trial._trial_id, self.study._storage):
                yield
        except BaseException:
            with without_warnings():
                if self.finish(trial, KILLED):
                    RetryHeartbeatStaleTrialCallback()(self.study, self.storage.get_trial(trial._trial_id))
            raise

    def finish(self, trial: Trial, state: str, value: float | None = None, reason: str | None = None) -> bool:
        """Enter what came of a trial; False if it was given to another process, as silent for too long."""
        try:
            if reason is not None:
                trial.set_user_attr(REASON, reason)
            self.study.tell(trial, value, STATES[state])
        except (optuna.exceptions.UpdateFinishedTrialError, ValueError):
            if self.storage.get_trial(trial._trial_id).state.is_finished():
                return False
            raise
        return True

    def running(self) -> list[int]:
        """The numbers of the trials that run."""
        return [trial.number for trial in self.trials(TrialState.RUNNING)]

    def best(self) -> FrozenTrial | None:
        """The best complete trial, if any is."""
        done = self.trials(TrialState.COMPLETE)
        sign = -1 if self.largest else 1
        return min(done, key=lambda trial: sign * float(trial.values[0]), default=None)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The study's trials, or those in certain states."""
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False, states=states or None)
        return found


@contextmanager
def without_warnings() -> Iterator[None]:
    """Without Optuna's warnings: that heartbeats are experimental, and made for its own loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield


def state_name(trial: FrozenTrial) -> str:
    """The state of a trial in a word; a failed one without a reason was killed."""
    if trial.state == TrialState.FAIL and REASON not in trial.user_attrs:
        return KILLED
    return "failed" if trial.state == TrialState.FAIL else str(trial.state.name.lower())
