"""End the program with one line instead of a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from attention_lab.errors import LabError
from attention_lab.text_tables import console_message


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the program with the message of a LabError; a context or a decorator.

    Hydra would print a traceback, or, for an exception in one of its callbacks, only a warning.
    """
    try:
        yield
    except LabError as error:
        sys.exit(console_message("Error", error))
