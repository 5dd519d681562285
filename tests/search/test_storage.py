"""The address of a study's database."""

from pathlib import Path

import pytest

pytest.importorskip("optuna")

from attention_lab.errors import LabError
from attention_lab.search.storage import storage_url


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@host/name",
        "postgresql+psycopg2://me:secret@host:5432/name",
        "postgresql://host/name?user=me&password=secret",
        "mysql://host/name?passwd=secret",
        "postgresql://me:secret@host/name?sslpassword=secret",
    ],
)
def test_a_password_is_rejected_and_not_repeated(address: str) -> None:
    """The trials get the address as an option, which the files of a run record."""
    with pytest.raises(LabError, match="leave the password out") as error:
        storage_url(address, Path("a"))
    assert str(error.value).startswith(f"sweep.storage={address.partition('://')[0]}://")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "address", ["postgresql://me:secret@host:port/name", "://me:secret@host", "a b://:secret@"]
)
def test_an_address_that_cannot_be_read_is_not_repeated(address: str) -> None:
    """A port that is not a number ended in a traceback."""
    with pytest.raises(LabError, match=r"^sweep\.storage=.*://\.\.\. is neither a file nor the URL") as error:
        storage_url(address, Path("a"))
    assert "secret" not in str(error.value)
