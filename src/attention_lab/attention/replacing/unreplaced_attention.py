"""Attention that a model computes by operations of its own, which stays as it is beside new mechanisms."""

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from attention_lab.attention.recorder import Selection
from attention_lab.attention.recording.missed_attention import first_of
from attention_lab.attention.recording.recording_mode import RecordingMode
from attention_lab.attention.recording.session import Session

_FIRST = slice(1)


@contextmanager
def noted_names(model: nn.Module) -> Iterator[list[str]]:
    """The names of the modules of a model that attend, as it runs inside, by operations of their own.

    Also of those that call torch's `multi_head_attention_forward`, whether they are of torch or not.
    """
    names: list[str] = []
    session = Session(model, Selection(_FIRST, _FIRST, _FIRST), None)  # of each attention, a single row
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="recording: ")  # of what cannot be recorded
        with _Noting(session) as mode:
            yield names
    found = [*mode.callers, *session.result]
    names.extend(dict.fromkeys(name.partition("#")[0] for name in found))


class _Noting(RecordingMode):
    """Records attention that is written by hand, and only notes which modules call torch's function.

    Attributes:
        callers: the names of those modules.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.callers: list[str] = []

    def _functional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.session.site()
        if site is not None:
            self.callers.append(site.name)

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Not noted here, as it is replaced or rejected."""


def warn_of_unreplaced(model: nn.Module, names: Collection[str]) -> None:
    """Warn of modules that attend by operations of their own, if there are any."""
    if names:
        kinds = {name: type(model.get_submodule(name)).__name__ for name in names}
        named = first_of([f"{name!r} ({kind})" if name else "the model" for name, kind in kinds.items()])
        warnings.warn(
            f"replace_attention: the mechanism was not put in {named}, where {type(model).__name__} "
            "attends by operations of its own: they stay as they are",
            stacklevel=3,
        )
