"""The exceptions that the command line reports in one line, and the one line of any other."""


def first_line(error: object) -> str:
    """The first line of what an error says; the name of its class if it says nothing."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def named_line(error: object) -> str:
    """The first line of what an error says, after the name of its class."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


class LabError(Exception):
    """Bad input: a file, a line, an option or a combination of options.

    Its message is one line that names the place and says what would be right. The command line prints
    only that line and exits with status 1; in Python it is an ordinary exception.
    """


class Stopped(BaseException):
    """A signal asks the program to end. It is not an `Exception`, so that error handlers let it pass.

    Attributes:
        signum: the signal's number; the exit status is 128 more.
        between_batches: whether training was stopped, with its last batch complete.
    """

    def __init__(self, signum: int, between_batches: bool = False) -> None:
        super().__init__(f"stopped by signal {signum}")
        self.signum, self.between_batches = signum, between_batches


class PrunedError(Exception):
    """A search stops an unpromising run. This is not a failure; the message says why."""
