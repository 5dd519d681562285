"""Recordings that observe a function shared by all threads and models."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attention_lab.attention.recording.session import Session


class Observers:
    """The recordings in progress that observe a function; it is replaced while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: list[Session] = []

    @property
    def here(self) -> list[Session]:
        """The recordings of the current thread, from the outermost to the innermost."""
        return [one for one in [*self._sessions] if one.is_here]

    @contextmanager
    def including(
        self, session: Session, replace: Callable[[], None], restore: Callable[[], None]
    ) -> Iterator[None]:
        """Add a recording; the first one replaces the function, and the last one to end restores it."""
        with self._lock:
            if not self._sessions:
                replace()
            self._sessions.append(session)
        try:
            yield
        finally:
            with self._lock:
                self._sessions.remove(session)
                if not self._sessions:
                    restore()
