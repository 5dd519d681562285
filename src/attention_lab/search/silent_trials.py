"""Trials of dead processes that Optuna would wait for indefinitely."""

import time

from optuna.storages import RDBStorage
from sqlalchemy import text

_HEARTBEATS = text(
    "SELECT trials.number, heartbeat FROM trials LEFT JOIN trial_heartbeats USING (trial_id) "
    "WHERE study_id = :study AND state = 'RUNNING'"
)


class SilentTrials:
    """Finds the running trials whose heartbeat has not changed for the storage's grace period.

    Optuna compares the time of a heartbeat with the clock of the database, so a trial without a heartbeat,
    or with one in the future, would run for ever. We measure how long we have seen the same one.

    Args:
        storage: the storage of the study.
        study: the storage's ID of the study.
    """

    def __init__(self, storage: RDBStorage, study: int) -> None:
        self.storage, self.study = storage, study
        self._seen: dict[int, tuple[object, float]] = {}

    def numbers(self) -> list[int]:
        """The numbers of these trials."""
        with self.storage.engine.connect() as connection:
            heartbeats = connection.execute(_HEARTBEATS, {"study": self.study}).all()
        now, before = time.monotonic(), self._seen
        self._seen = {
            number: before[number] if before.get(number, ("",))[0] == heartbeat else (heartbeat, now)
            for number, heartbeat in heartbeats
        }
        assert self.storage.grace_period is not None
        return [
            number for number, (_, since) in self._seen.items() if now - since > self.storage.grace_period
        ]
