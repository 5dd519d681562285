"""A study shared by several processes, any of which may die at any moment."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from filelock import FileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import make_url

from attention_lab.commandline.overrides import split_override
from attention_lab.console_text import printable
from attention_lab.errors import LabError, first_line
from attention_lab.search.silent_trials import SilentTrials
from attention_lab.search.storage import blame_database, connect, without_warnings
from attention_lab.search.study_size import check_study_size
from attention_lab.search.trial_checks import check_results, check_value

KILLED = "killed"
REASON = "reason"
"""Attribute of a trial that says why it was pruned or failed. A trial that failed without one was killed."""
MOST_RUNNING = 1000
"""Maximum number of trials that run at once. In a study from others, each one takes time to be run again."""
_CLAIMED = "claimed"
_OPTIONS = "options"
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
    ArithmeticError,
    AssertionError,
)


class Result(NamedTuple):
    """How a trial ended: `complete` with a value, or `pruned`, `failed` or `killed` with a reason."""

    state: str
    value: float | None = None
    reason: str | None = None


class _FailedError(Exception):
    """Tells `Study.optimize` that a trial failed."""


class _AlreadyEndedError(BaseException):
    """Leaves `Study.optimize` without a result, since the trial already has one.

    It is not an `Exception`, because `Study.optimize` handles those.
    """


def open_trial(number: int, *, name: str, storage: str, pruner: BasePruner) -> Trial:
    """Open a trial of the named study in the process that runs it.

    Raises:
        LabError: the storage cannot be reached.
    """
    opened = connect(storage)
    with blame_database(storage):
        study = optuna.load_study(study_name=name, storage=opened, pruner=pruner)
        return Trial(study, _trial_id(opened, name, number))


class SharedStudy:
    """A study that assigns trials under a lock, so that none runs twice and no more run than wanted.

    A process that runs a trial sends heartbeats. If they stop, the trial fails, and a copy of it is queued
    for the next process that asks for a trial.

    Args:
        name: the study's name.
        url: the URL of its storage.
        folder: the study's folder, which holds the lock.
        wanted: the number of complete or pruned trials after which the search is over.
        heartbeat: seconds between heartbeats.
        distributions: the searched options.
        options: `direction`, `sampler` and `pruner`, as for `optuna.create_study`.
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
        self.lock, self._url = FileLock(folder / "study.lock"), make_url(url)
        self.name, self.wanted, self.distributions = name, wanted, distributions
        self._first, self._options = True, dict[str, str]()
        with self.lock, self._blame_storage():
            self.storage = connect(url, heartbeat)
            check_study_size(self.storage, name, f"sweep.storage={self._url!r}")
            self.study: Study = optuna.create_study(
                study_name=name, storage=self.storage, load_if_exists=True, **options
            )
            self._silent = SilentTrials(self.storage, self.study._study_id)
            if [one.name.lower() for one in self.study.directions] != [options.get("direction", "minimize")]:
                raise ValueError("it has a different direction")

    def check_options(self, options: Mapping[str, str]) -> None:
        """Check that the options are those the study started with; otherwise values are not comparable.

        While all trials have failed, options that are not searched may be corrected.

        Raises:
            LabError: an option differs; the message names the first one.
        """
        self._options = dict(options)
        with self.lock:
            kept = self._kept_options()
            if kept is None or (kept != self._options and self._may_change(_differing(kept, self._options))):
                self.study.set_user_attr(_OPTIONS, self._options)
            self._compare_options()

    def _kept_options(self) -> dict[str, str] | None:
        """The options that the study was started with; None if it is new."""
        with self._blame_storage():
            kept: dict[str, str] | None = self.study.user_attrs.get(_OPTIONS)
            if not isinstance(kept, dict | None) or not all(map(_is_text, (kept or {}).values())):
                raise TypeError("its options are not texts by name")
        return kept

    def _compare_options(self) -> None:
        """Raise LabError if the study's options are not this process's: another may have corrected them."""
        first, now = self._kept_options() or {}, self._options
        for key in _differing(first, now):
            before, after = (
                printable(f"with {lines[key]}" if key in lines else f"without {key}")
                for lines in (first, now)
            )
            raise LabError(
                f"the study {self.name} was started {before}, not {after}: use the same options "
                "again, or start another study with sweep.study=NAME"
            )

    def _may_change(self, options: Collection[str]) -> bool:
        """Whether options may change: all trials so far have failed, and Optuna chose none of these."""
        trials = self.trials()
        chosen = {name for trial in trials for name in trial.params}
        return {trial.state for trial in trials} == {TrialState.FAIL} and chosen.isdisjoint(options)

    @property
    def metric(self) -> str:
        """The metric that the search optimises, once `check_options` has passed."""
        return split_override(self.study.user_attrs[_OPTIONS]["monitor.metric"]).value

    def run_one(self, job: Callable[[Trial], Result]) -> Result | None:
        """Run a queued trial, or else a new one; returns None if enough have ended or are running.

        Optuna proposes values and records results under the lock, which is released while the job runs.
        Optuna's `MaxTrialsCallback` counts only trials that have ended, so each process could run one too
        many.
        """
        result: Result | None = None

        def objective(trial: Trial) -> float:
            """Run the job without the lock; return the trial's value, or raise if it ended otherwise."""
            nonlocal result
            self._claim(trial)
            self.lock.release()
            try:
                result = job(trial)
            except BaseException as stop:
                self.lock.acquire()
                self._run_again(trial.number)
                raise _AlreadyEndedError from stop
            self.lock.acquire()
            if self.trials()[trial.number].state != TrialState.RUNNING:
                result = Result(KILLED, reason="no heartbeat for too long; it is run again")
                raise _AlreadyEndedError
            if result.value is not None:
                return result.value
            trial.set_user_attr(REASON, result.reason)
            raise optuna.TrialPruned if result.state == "pruned" else _FailedError

        with self.lock:
            self._compare_options()
            self._fail_dead_trials()
            if self._first and self.trials():
                self.study.sampler.reseed_rng()  # a seed would propose other processes' values again
            self._first = False
            if len(self.trials(TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)) < self.wanted:
                try:
                    self.study.optimize(objective, n_trials=1, catch=_FailedError)
                except _AlreadyEndedError as ended:
                    if ended.__cause__ is not None:
                        raise ended.__cause__ from None
        return result

    def _claim(self, trial: Trial) -> None:
        """Let Optuna propose the values of a trial, and note that this process runs it."""
        with self._blame_storage(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about values out of range, which end in an error
            for name, distribution in self.distributions.items():
                _suggest(trial, name, distribution)
        # Without a heartbeat a trial never counts as dead, and Optuna may send the first one late.
        self.storage.record_heartbeat(_trial_id(self.storage, self.name, trial.number))
        trial.set_user_attr(_CLAIMED, trial.number)

    @without_warnings()
    def _fail_dead_trials(self) -> None:
        """Mark the trials of dead processes as failed, and queue copies of them."""
        with self._blame_storage():
            running = len(self.trials(TrialState.RUNNING))
            if running > MOST_RUNNING:
                raise ValueError(f"{running} of its trials are running")
            fail_stale_trials(self.study)
            silent = self._silent.numbers()
        for trial in self.trials(TrialState.RUNNING):
            # While we hold the lock, a trial can be running but unclaimed only if its process has died.
            if trial.user_attrs.get(_CLAIMED) != trial.number or trial.number in silent:
                self._run_again(trial.number)

    @without_warnings()
    def _run_again(self, number: int) -> None:
        """Mark a running trial as killed and queue a copy of it."""
        with self._blame_storage():
            trial = self.storage.get_trial(_trial_id(self.storage, self.name, number))
            if trial.state == TrialState.RUNNING:
                self.study.tell(number, state=TrialState.FAIL)
                RetryHeartbeatStaleTrialCallback()(self.study, trial)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The study's trials by number, or only those in the given states.

        Raises:
            LabError: a complete one has no result, or options that are not in the search space.
        """
        with self._blame_storage():
            found: list[FrozenTrial] = self.study.get_trials(deepcopy=False, states=states or None)
            if not states and [trial.number for trial in found] != list(range(len(found))):
                raise ValueError("its trials are not numbered from 0")
            check_results(found, self.distributions)
        return found

    @contextmanager
    def _blame_storage(self) -> Iterator[None]:
        """Turn errors in what the storage contains, such as broken JSON, into a LabError that names it."""
        try:
            yield
        except _DAMAGE as error:
            raise LabError(
                f"sweep.storage={self._url!r}: the study {self.name} is damaged "
                f"({printable(first_line(error), 200)}): start another with sweep.study=NAME"
            ) from None


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The options that are not the same in both, by name."""
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _suggest(trial: Trial, name: str, source: BaseDistribution) -> None:
    """Let Optuna propose a value for an option of a trial.

    Raises:
        ValueError: the storage has a value for it that is not in the search space.
    """
    if isinstance(source, FloatDistribution):
        trial.suggest_float(name, source.low, source.high, log=source.log)
    elif isinstance(source, IntDistribution):
        trial.suggest_int(name, source.low, source.high, step=source.step, log=source.log)
    elif isinstance(source, CategoricalDistribution):
        trial.suggest_categorical(name, source.choices)
    check_value(trial, name, source)


def _trial_id(storage: RDBStorage, study: str, number: int) -> int:
    """The storage's ID of a study's trial."""
    study_id = storage.get_study_id_from_name(study)
    return int(storage.get_trial_id_from_study_id_trial_number(study_id, number))


def state_name(trial: FrozenTrial) -> str:
    """The state of a trial in one word; a trial that failed without a reason was killed."""
    if trial.state != TrialState.FAIL:
        return str(trial.state.name.lower())
    return "failed" if REASON in trial.user_attrs else KILLED
