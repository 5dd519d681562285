"""The one exception for input that the user can put right."""


class LabError(Exception):
    """Bad input: a file, a line, an option or a combination of options.

    Its text is one line that names the place and says what would be right. The command line prints
    that line alone and exits with status 1; from Python it is an ordinary exception.
    """
