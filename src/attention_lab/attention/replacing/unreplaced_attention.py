"""Attention that `replace_attention` leaves as it is: modules that compute it with their own operations."""

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
    """Note which modules of a model, which runs inside, compute attention with their own operations.

    Modules that call torch's `multi_head_attention_forward` are noted as well, whoever wrote them.
    """
    names: list[str] = []
    session = Session(model, Selection(_FIRST, _FIRST, _FIRST), None)  # a single row of each attention
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="recording: ")  # about attention that cannot be recorded
        with _Noting(session) as mode:
            yield names
    found = [*mode.callers, *session.result]
    names.extend(dict.fromkeys(name.partition("#")[0] for name in found))


class _Noting(RecordingMode):
    """Records hand-written attention, and only notes which modules call `multi_head_attention_forward`.

    Attributes:
        callers: the names of the modules that call it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.callers: list[str] = []

    def _functional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        site = self.session.site()
        if site is not None:
            self.callers.append(site.name)

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Not noted: these calls are replaced or rejected."""


def warn_of_unreplaced(model: nn.Module, names: Collection[str]) -> None:
    """Warn about modules that compute attention with their own operations, if there are any."""
    if names:
        kinds = {name: type(model.get_submodule(name)).__name__ for name in names}
        named = first_of([f"{name!r} ({kind})" if name else "the model" for name, kind in kinds.items()])
        warnings.warn(
            f"replace_attention: the mechanism was not put in {named}, where {type(model).__name__} "
            "computes attention with its own operations: they stay as they are",
            stacklevel=3,
        )
