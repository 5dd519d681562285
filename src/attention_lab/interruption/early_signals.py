"""Handle Ctrl-C and SIGTERM while the program starts, outside `signals.raise_on_signals`."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

_at_exit: list[Callable[[int], None]] = []
"""What to call before the program ends: see `say_before_exit`."""


def exit_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end the program without a traceback; call this before any slow import.

    The exit status is 128 + the signal's number. Signals that are ignored or handled already stay so. In a
    search, or a sweep with a launcher, they raise SystemExit, at which the search hands its trial back, and
    joblib ends the processes that it has started.
    """
    cleans_up = any(text.startswith(("launcher=", "sweep=")) for text in sys.argv)
    for signum in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(signum) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(signum, raise_exit if cleans_up else exit_at_once)


def say_before_exit(say: Callable[[int], None]) -> None:
    """Set what prints how to go on, given the signal, when one of the handlers below ends the program."""
    _at_exit[:] = [say]


def raise_exit(signum: int, _: FrameType | None) -> NoReturn:
    """End the program with an exception; if a finalizer drops it, the signal is sent again."""

    def repeat(dropped: Any) -> None:
        if isinstance(dropped.exc_value, SystemExit):
            threading.Timer(0.1, os.kill, (os.getpid(), signum)).start()
        else:
            sys.__unraisablehook__(dropped)

    sys.unraisablehook = repeat
    _say(signum)
    sys.exit(128 + signum)


def exit_at_once(signum: int, _: FrameType | None) -> NoReturn:
    """End the program; an exception could be caught by a library, or leave it in a state that it reports."""
    _say(signum)
    os._exit(128 + signum)


def _say(signum: int) -> None:
    """Print how to go on: only once, however often the signal is sent, and only if printing is possible."""
    with suppress(OSError, RuntimeError, ValueError):  # closed streams; a print that the signal interrupted
        while _at_exit:
            _at_exit.pop()(signum)
