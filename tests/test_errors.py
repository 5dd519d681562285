"""Errors in one line."""

import pickle

import pytest

from attention_lab.errors import LabError, LineError, first_line, named_line


@pytest.mark.parametrize(
    ("error", "line", "named"),
    [
        (ValueError("no such\nmodel"), "no such", "ValueError: no such"),
        (ValueError("\n\n  no such model \n"), "no such model", "ValueError: no such model"),
        (KeyError("x"), "'x'", "KeyError: 'x'"),
        (AssertionError(), "AssertionError", "AssertionError"),
        (AssertionError(" \n"), "AssertionError", "AssertionError"),
    ],
)
def test_one_line(error: Exception, line: str, named: str) -> None:
    assert first_line(error) == line
    assert named_line(error) == named


def test_an_error_of_a_line_knows_its_number_also_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(LineError(3, "it is empty")))
    assert isinstance(error, LabError)
    assert (error.number, error.problem, str(error)) == (3, "it is empty", "input 3: it is empty")
