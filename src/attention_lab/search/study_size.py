"""Check how large a study on a database server is, before Optuna reads all of it into memory."""

from collections.abc import Iterator

from optuna.storages import RDBStorage
from sqlalchemy import text

from attention_lab.errors import LabError
from attention_lab.files.databases import LONGEST_VALUE, SHORT, check_sizes

_TEXTS = {
    "study_user_attributes": "value_json",
    "study_system_attributes": "value_json",
    "trials": None,
    "trial_user_attributes": "value_json",
    "trial_system_attributes": "value_json",
    "trial_params": "distribution_json",
    "trial_values": None,
    "trial_intermediate_values": None,
}
"""The tables of a study, and the column whose texts may be long."""
MOST_UNFINISHED = 10_000
"""Maximum number of trials that are queued or running: Optuna reads them again for each new trial."""


def check_study_size(storage: RDBStorage, study: str, name: str) -> None:
    """Reject a study that does not fit in memory; of a file, `files.databases.check_study` checks more.

    Args:
        storage: the storage.
        study: the name of the study, which need not exist.
        name: the option that gives the storage, for the error.

    Raises:
        LabError: a value is too long, too many trials are queued or running, or see
            `files.databases.check_sizes`.
    """
    check_sizes(_sizes(storage, study, name), name, "study")
    _check_unfinished(storage, study, name)


def _sizes(storage: RDBStorage, study: str, name: str) -> Iterator[tuple[int, int]]:
    with storage.engine.connect() as connection:
        for table, column in _TEXTS.items():
            further = f"CASE WHEN length({column}) > {SHORT} THEN length({column}) - {SHORT} ELSE 0 END"
            trials = "JOIN trials USING (trial_id)" if table.startswith("trial_") else ""
            sizes = f"sum({further}), max(length({column}))" if column else "0, 0"
            query = (
                f"SELECT count(*), {sizes} FROM {table} {trials} "
                "JOIN studies USING (study_id) WHERE study_name = :study"
            )
            rows, total, longest = connection.execute(text(query), {"study": study}).one()
            if (longest or 0) > LONGEST_VALUE:
                raise LabError(
                    f"{name}: a value has {longest:,} characters, more than {LONGEST_VALUE:,}: use another "
                    "study"
                )
            yield rows, total or 0


def _check_unfinished(storage: RDBStorage, study: str, name: str) -> None:
    query = (
        "SELECT count(*) FROM trials JOIN studies USING (study_id) "
        "WHERE study_name = :study AND state IN ('WAITING', 'RUNNING')"
    )
    with storage.engine.connect() as connection:
        found = connection.execute(text(query), {"study": study}).scalar_one()
    if found > MOST_UNFINISHED:
        raise LabError(
            f"{name}: {found:,} of its trials are queued or running, more than {MOST_UNFINISHED:,}: use "
            "another study"
        )
