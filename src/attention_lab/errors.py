"""The exceptions that the command line reports in one line, and how any error is cut to one line."""

_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "failed to allocate")
BAD_VALUE_ERRORS = (
    *(LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, AssertionError),
)
"""Exceptions raised by values of the wrong type, shape or size."""


def first_line(error: object) -> str:
    """The first line of an error's message, or the name of its class if the message is empty."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def named_line(error: object) -> str:
    """The name of an error's class and the first line of its message."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, Python's or PyTorch's, means that memory ran out."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY)


class LabError(Exception):
    """Bad input: a file, a line, an option or a combination of options.

    Its message is one line that says where the problem is and what would be correct. The command line
    prints only that line and exits with status 1; in Python it is an ordinary exception.
    """


class LineError(LabError):
    """A bad input among several, which may be the lines of a file.

    Attributes:
        number: the number of the input.
        problem: the message without the number.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number, self.problem = number, problem

    def __str__(self) -> str:
        return f"input {self.number}: {self.problem}"


class PartError(LabError, TypeError, ValueError):
    """A part of an attention, often a class of the user's own, returns something of the wrong kind or shape.

    Library code may catch it as a TypeError or a ValueError.
    """


class Stopped(BaseException):
    """A signal has asked the program to end. Not an `Exception`, so that error handlers do not catch it.

    Attributes:
        signum: the signal's number; the exit status is 128 + signum.
        between_batches: whether training was stopped between two batches, with the last one complete.
    """

    def __init__(self, signum: int, between_batches: bool = False) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.signum, self.between_batches = signum, between_batches


class PrunedError(Exception):
    """A search has stopped an unpromising run. This is not a failure; the message says why."""
