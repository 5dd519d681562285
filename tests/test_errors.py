"""An error told in one line."""

import pytest

from attention_lab.errors import first_line, named_line


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
